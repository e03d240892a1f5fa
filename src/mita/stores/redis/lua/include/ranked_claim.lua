-- Claiming where the next job can be of any priority or group: in a queue that has groups (see
-- shares), or that uses several priorities and has ageing. Then a job goes first whose due time
-- minus its priority times the ageing is the smallest.
--
-- Jobs are taken out in order, and started together at the end: only jobs with gates are started at
-- once, because whether they start decides whether their group has had its turn.
--
-- Made when `ranked()` is first called, as in gates.

local made_ranked
local function ranked()
  if made_ranked then return made_ranked end
  local k, s = {}, shares()
  made_ranked = k
  local FIRST_PART_JOBS = 16 -- then twice as many each time, while they are all of one priority

  local function rank(c, priority, due)
    return c.ageing and due - priority * c.ageing or -priority
  end

  -- Take a job out of the list or the sorted set of its priority.
  local function take_plain(q, priority, job)
    if job.listed then return call('LTRIM', ready_of(q, priority), '1', '-1') end
    call('ZREM', due_of(q, priority), job.handle)
    q.first_due[priority] = first_due(q, priority)
  end

  -- The first due job without a group: { due, handle, group, listed }; nil if there is none.
  local function first_plain(q, c, priority)
    while true do
      local handles, listed = first_handles(q, c, priority, 1)
      local handle = handles[1]
      if not handle then return nil end
      local job = { handle = handle, group = NO_GROUP, listed = listed == 1 }
      if not job.listed then
        job.due = q.first_due[priority]
        return job
      end
      local id = handle:sub(ID_AT)
      local fixed = call('HGET', q.jobs, id)
      job.due = number_at(fixed or '', DUE_AT)
      local removed = removed_from_list(q, priority) > 0
      if not removed or not is_removed(handle, fixed, call('HGET', q.live, id)) then return job end
      take_plain(q, priority, job)
      uncount_removed(q, priority, 1)
    end
  end

  -- Start the jobs that were taken out and not started yet.
  local function start_taken(q, c, taken)
    if #taken == 0 then return end
    local ids = {}
    for i, handle in ipairs(taken) do ids[i] = handle:sub(ID_AT) end
    local fixed, lives = call('HMGET', q.jobs, unpack(ids)), call('HMGET', q.live, unpack(ids))
    start_jobs(q, c, taken, ids, fixed, lives, 0)
  end

  -- The priority whose first job goes next, and the one that would go after it.
  local function first_two(q, c, heads)
    local best, second
    for _, priority in ipairs(used_priorities(q)) do
      local job = heads[priority]
      if job then
        local its_rank = rank(c, priority, job.due)
        if not best or its_rank < best.rank then
          best, second = { priority = priority, rank = its_rank }, best
        elseif not second or its_rank < second.rank then
          second = { priority = priority, rank = its_rank }
        end
      end
    end
    return best, second
  end

  -- Groups: one job after the other

-- include turns
-- include write_turns

  local function read_weight(fixed)
    local r = {}
    read_flow(r, fixed, client_fields_at(fixed))
    return r.weight
  end

  local function weight_of(q, handle)
    if handle:byte(FLAG_AT) < FIRST_WEIGHT_FLAG then return NORMAL_WEIGHT end
    local ok, weight = pcall(read_weight, call('HGET', q.jobs, handle:sub(ID_AT)))
    return ok and weight or NORMAL_WEIGHT
  end

  -- Start a job that was taken out, or note it for the end. Returns whether it starts.
  local function start_or_note(q, c, handle, taken)
    if not has_gates(handle:byte(FLAG_AT)) then
      taken[#taken + 1] = handle
      return true
    end
    start_taken(q, c, taken)
    for i = #taken, 1, -1 do taken[i] = nil end
    local before = #c.fixed
    start_taken(q, c, { handle })
    return #c.fixed > before
  end

  -- The turns of the priority whose next job goes first, and the group that has this job. With
  -- strict priorities no lower one is looked at.
  local function best_turns(q, c, priorities, all, most)
    local best, best_group, best_rank
    for i = 1, #priorities do
      local priority = priorities[i]
      local t = all[priority] or turns_of(q, c, priority, most)
      all[priority] = t
      local group = next_group(q, c, t)
      if group and (not c.ageing or #priorities == 1) then return t, group end
      local its_rank = group and rank(c, priority, group.due)
      if group and (not best or its_rank < best_rank) then
        best, best_group, best_rank = t, group, its_rank
      end
    end
    return best, best_group
  end

  local function take_turns(q, c)
    local most = math.min(wanted(q, c), CALL_ITEMS - c.looked_at)
    local all, taken, met, priorities = {}, {}, 0, used_priorities(q)
    while met < most and wanted(q, c) > #taken do
      local t, group = best_turns(q, c, priorities, all, most)
      if not t then break end
      local handle = group.handle
      take_first(q, c, t, group)
      met, c.looked_at = met + 1, c.looked_at + 1
      end_turn(c, t, group, start_or_note(q, c, handle, taken), weight_of(q, handle))
    end
    for _, t in pairs(all) do write_turns(q, t) end
    start_taken(q, c, taken)
    return met
  end

  -- Ageing without groups: as many jobs of a priority as go before the next priority

  -- Take up to n jobs of a priority out that are due until then. Returns how many were met.
  local function take_until(q, c, priority, n, last, taken)
    local ready, due = ready_of(q, priority), due_of(q, priority)
    local listed, ids = call('LRANGE', ready, '0', n - 1), {}
    for i, handle in ipairs(listed) do ids[i] = handle:sub(ID_AT) end
    local fixed = #ids > 0 and call('HMGET', q.jobs, unpack(ids)) or {}
    local removed = #ids > 0 and removed_from_list(q, priority) or 0
    local lives = removed > 0 and call('HMGET', q.live, unpack(ids)) or {}
    local sorted = call('ZRANGEBYSCORE', due, '-inf', plain(last), 'WITHSCORES', 'LIMIT', '0', n)
    local a, b, skipped = 0, 0, 0
    while a + b < n do
      local mine, other = listed[a + 1], sorted[b * 2 + 1]
      local mine_due = mine and number_at(fixed[a + 1] or '', DUE_AT)
      if mine and mine_due > last then mine = nil end
      if mine and other and fixed[a + 1] then
        local other_due = tonumber(sorted[b * 2 + 2])
        local is_older = number_at(other, 1) < number_at(mine, 1)
        if other_due < mine_due or (other_due == mine_due and is_older) then mine = nil end
      end
      if not mine and not other then break end
      if mine then a = a + 1 else b = b + 1 end
      if mine and removed > 0 and is_removed(mine, fixed[a], lives[a]) then
        skipped = skipped + 1
      else
        taken[#taken + 1] = mine or other
      end
    end
    if a > 0 then call('LTRIM', ready, a, '-1') end
    if skipped > 0 then uncount_removed(q, priority, skipped) end
    if b > 0 then call('ZREMRANGEBYRANK', due, '0', b - 1) end
    q.first_due[priority] = first_due(q, priority)
    return a + b
  end

  local function take_ranked(q, c)
    local heads, taken, part = {}, {}, FIRST_PART_JOBS
    for priority in pairs(q.first_due) do heads[priority] = first_plain(q, c, priority) end
    while wanted(q, c) > #taken and c.looked_at < CALL_ITEMS do
      local best, second = first_two(q, c, heads)
      if not best then break end
      local priority, last = best.priority, c.now
      if second then -- of two jobs with the same rank the higher priority goes first
        local until_then = second.rank + priority * c.ageing
        last = math.min(last, until_then - (priority > second.priority and 0 or 1))
      end
      local n = math.min(wanted(q, c) - #taken, CALL_ITEMS - c.looked_at, part)
      local met = take_until(q, c, priority, n, last, taken)
      if met == 0 then break end
      c.looked_at = c.looked_at + met
      part = met == n and part * 2 or FIRST_PART_JOBS
      heads[priority] = first_plain(q, c, priority)
    end
    start_taken(q, c, taken)
    return #taken
  end

  -- Claim from one queue, as `claim` does.
  function k.claim(q, c)
    local take = uses(q, GROUPS) and take_turns or take_ranked
    if wanted(q, c) > 0 then check_claim_types(q, CALL_ITEMS, FIRST_FLOW_FLAG) end
    for priority in pairs(take == take_turns and q.first_due or {}) do
      check_group_types(q, priority)
    end
    while wanted(q, c) > 0 and c.looked_at < CALL_ITEMS and take(q, c) > 0 do end
    read_next_due(q, c)
  end

  return k
end
