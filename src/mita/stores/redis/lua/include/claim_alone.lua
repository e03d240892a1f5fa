-- Claiming in a queue with groups (see shares) while only one of them has jobs, or while there are
-- only jobs without a group: many jobs at a time, as in a queue without groups. Then all turns are
-- those of one group, so its virtual time follows from the number of its starts.
--
-- The server makes functions anew at every call, so those in here are made only for such a queue.

-- include next_due
local ONE_NORMAL_TURN = ONE_TURN / NORMAL_WEIGHT

-- Claim from a queue with groups, as `claim` does.
local function claim_with_groups(q, c)
  -- The virtual time at which a group that is alone starts its next job.
  local function tag_alone(priority, name)
    local virtual = tonumber(call('HGET', q.meta, 'virtual:' .. priority) or 0) or 0
    return math.max(virtual, tonumber(call('ZSCORE', q.turns .. priority, name) or 0))
  end

  -- A group that is alone has started so many jobs, the first at `tag`. No other group has jobs, so
  -- those whose turn has come are only forgotten.
  local function write_turns_alone(priority, name, tag, starts)
    local turns, last = q.turns .. priority, tag + (starts - 1) * ONE_NORMAL_TURN
    call('HSET', q.meta, 'virtual:' .. priority, plain(last))
    if q.virtual then q.virtual[priority] = last end
    call('ZREMRANGEBYSCORE', turns, '-inf', plain(last))
    call('ZADD', turns, plain(last + ONE_NORMAL_TURN), name)
  end

  -- The group of a priority that has jobs: its name, its entry, when its first job is due, and the
  -- key of the entry. NO_GROUP alone if no group has jobs; nil if there are several groups.
  local function group_alone(priority)
    local key, other = q.groups_next .. priority, q.groups_later .. priority
    local found = call('ZRANGE', key, '0', '1', 'WITHSCORES')
    local later = call('ZRANGE', other, '0', '1', 'WITHSCORES')
    if #found + #later == 0 then return NO_GROUP end
    if #found + #later > 2 or q.first_due[priority] <= c.now then return nil end
    if call('LLEN', ready_of(q, priority)) > 0 then return nil end
    if #found == 0 then found, key = later, other end
    return found[1]:sub(ID_AT - 1), found[1], tonumber(found[2]), key
  end

  -- Claim up to n jobs of the only group. Returns how many were met; nil if these jobs must be
  -- looked at one by one: they have gates or weights, or the entry is not that of the first job.
  local function claim_from_group(priority, n, name, entry, key)
    local set, ids, sub, byte = q.group .. priority .. ':' .. name, {}, string.sub, string.byte
    local handles = call('ZRANGEBYSCORE', set, '-inf', c.moment, 'LIMIT', '0', n)
    local many = #handles
    if many == 0 or sub(handles[1], 1, ID_AT - 2) .. name ~= entry then return nil end
    for i = 1, many do
      local flag = byte(handles[i], FLAG_AT)
      if flag >= FIRST_WEIGHT_FLAG or has_gates(flag) then return nil end
      ids[i] = sub(handles[i], ID_AT)
    end
    check_claim_types(q, many, false)
    local fixed, lives = call('HMGET', q.jobs, unpack(ids)), call('HMGET', q.live, unpack(ids))
    local following = call('ZRANGE', set, many, many, 'WITHSCORES')
    local tag = tag_alone(priority, name)
    call('ZREMRANGEBYRANK', set, '0', many - 1)
    call('ZREM', key, entry)
    write_turns_alone(priority, name, tag, many)
    if following[1] then
      local its_entry = sub(following[1], 1, ID_AT - 2) .. name
      call('ZADD', q.groups_later .. priority, following[2], its_entry)
    end
    start_jobs(q, c, handles, ids, fixed, lives, 0)
    return many
  end

  -- Claim up to n jobs of a priority. Returns how many were met; nil if the groups take turns.
  local function claim_priority_alone(priority, n)
    local name, entry, due, key = group_alone(priority)
    if not name then return nil end
    if entry then return due > c.now and 0 or claim_from_group(priority, n, name, entry, key) end
    local tag, before = tag_alone(priority, NO_GROUP), #c.fixed
    local met = claim_first(q, c, priority, n)
    if #c.fixed > before then write_turns_alone(priority, name, tag, #c.fixed - before) end
    return met
  end

  -- Whether only one priority of a queue has due jobs.
  local function is_one_priority()
    local many = 0
    for priority, due in pairs(q.first_due) do
      local has_jobs = due <= c.now or call('LLEN', ready_of(q, priority)) > 0
      if has_jobs or first_due_of_groups(q, priority) <= c.now then many = many + 1 end
    end
    return many <= 1
  end

  -- Claim while in each priority only one group has jobs. Returns false if the rest goes by turns.
  local function claim_alone()
    if c.ageing and #q.used > 1 and not is_one_priority() then return false end
    for _, priority in ipairs(used_priorities(q)) do
      local empty = not q.first_due[priority]
      while not empty and wanted(q, c) > 0 and c.looked_at < CALL_ITEMS do
        local n = math.min(wanted(q, c), CALL_ITEMS - c.looked_at)
        local met = claim_priority_alone(priority, n)
        if not met then return false end
        c.looked_at, empty = c.looked_at + met, met < n
      end
    end
    return true
  end

  if not claim_alone() then return rare().ranked().claim(q, c) end
  read_next_due(q, c)
end
