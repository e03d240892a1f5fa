-- Fair shares: the groups of a priority take turns (`rules.shares`). The jobs of a group are in a
-- sorted set of their own; jobs without a group are in the list and the set of their priority, and
-- are one group more, NO_GROUP.
--
-- `turns` has the groups whose own virtual time is later than that of the priority. A group with
-- queued jobs has an entry with the age and the due time of its first job: in `groups_later` if it
-- is in `turns`, else in `groups_next`. All of the latter have the same virtual time, so the one
-- whose first job is due first goes next, and no group is looked at whose turn has not come.
--
-- Only queues with groups need these functions, so they are made when `shares()` is first called.

-- include flow_changes
local NO_GROUP = ''

local made_shares
local function shares()
  if made_shares then return made_shares end
  local s = {}
  made_shares = s

  local function group_of(q, priority, name) return q.group .. priority .. ':' .. name end

  local function entry(handle, name) return handle:sub(1, ID_AT - 2) .. name end

  -- Handle and due time of the first job of a group.
  function s.first(q, priority, name)
    local found = call('ZRANGE', group_of(q, priority, name), 0, 0, 'WITHSCORES')
    return found[1], tonumber(found[2])
  end

  local function entries_of(q, priority, name)
    local later = call('ZSCORE', q.turns .. priority, name)
    return (later and q.groups_later or q.groups_next) .. priority
  end

  -- The jobs of a group have changed. `before` is the handle of the job that was its first.
  local function enter(q, priority, name, before)
    local entries, first, due = entries_of(q, priority, name), s.first(q, priority, name)
    if before then call('ZREM', entries, entry(before, name)) end
    if first then call('ZADD', entries, due, entry(first, name)) end
  end

  -- Add jobs to a group: due time and handle of each.
  function s.add_all(q, priority, name, jobs)
    local before = s.first(q, priority, name)
    call('ZADD', group_of(q, priority, name), unpack(jobs))
    enter(q, priority, name, before)
    set_use(q, GROUPS, true)
  end

  function s.add(q, r) s.add_all(q, r.priority, r.fair, { plain(r.due), r.handle }) end

  function s.remove(q, r)
    local before = s.first(q, r.priority, r.fair)
    call('ZREM', group_of(q, r.priority, r.fair), r.handle)
    enter(q, r.priority, r.fair, before)
  end

  -- Virtual times

  function s.virtual(q, priority)
    q.virtual = q.virtual or {}
    if not q.virtual[priority] then
      q.virtual[priority] = tonumber(call('HGET', q.meta, 'virtual:' .. priority) or 0) or 0
    end
    return q.virtual[priority]
  end

  -- The virtual time at which a group starts its next job.
  function s.start_tag(q, priority, name)
    local finished = tonumber(call('ZSCORE', q.turns .. priority, name) or 0)
    return math.max(s.virtual(q, priority), finished)
  end

  function s.finish_tag(start, weight) return start + math.floor(ONE_TURN / weight) end

  -- Move the entry of a group between the two sets.
  local function move_entry(q, priority, name, from, to)
    local first, due = s.first(q, priority, name)
    if first and call('ZREM', from .. priority, entry(first, name)) == 1 then
      call('ZADD', to .. priority, due, entry(first, name))
    end
  end

  -- The virtual time of a priority has come to this. Groups whose turn has come leave `turns`; a
  -- group without jobs is forgotten by that. `name` is the group that starts a job.
  local function advance(q, priority, virtual, name)
    if virtual <= s.virtual(q, priority) then return end
    local turns, last = q.turns .. priority, plain(virtual)
    q.virtual[priority], q.has_new_virtual = virtual, true
    local over = call('ZRANGEBYSCORE', turns, '-inf', last)
    if #over > 0 then call('ZREMRANGEBYSCORE', turns, '-inf', last) end
    for _, other in ipairs(over) do
      if other ~= NO_GROUP and other ~= name then
        move_entry(q, priority, other, q.groups_later, q.groups_next)
      end
    end
  end

  -- A job of a group starts, which was found by `next` and is in no index any more.
  function s.start(q, priority, job, weight)
    local name = job.group
    advance(q, priority, job.tag, name)
    call('ZADD', q.turns .. priority, plain(s.finish_tag(job.tag, weight)), name)
    if job.second then
      call('ZREM', job.entries .. priority, entry(job.second, name))
      call('ZADD', q.groups_later .. priority, job.second_due, entry(job.second, name))
    end
  end

  -- After the last start of a script.
  function s.save_virtual(q)
    if not q.has_new_virtual then return end
    for priority, virtual in pairs(q.virtual) do
      call('HSET', q.meta, 'virtual:' .. priority, plain(virtual))
    end
  end

  -- When the first job of all groups is due; math.huge if there is none.
  function s.first_due(q, priority)
    local due = math.huge
    for _, entries in ipairs({ q.groups_next, q.groups_later }) do
      local found = call('ZRANGE', entries .. priority, 0, 0, 'WITHSCORES')[2]
      due = math.min(due, tonumber(found or math.huge))
    end
    return due
  end

  -- The first job of a group, and the one behind it. `entries` is the set that has the entry of the
  -- group.
  local function first_job(q, priority, name, tag, entries)
    local found = call('ZRANGE', group_of(q, priority, name), 0, 1, 'WITHSCORES')
    if not found[1] then return nil end
    return {
      tag = tag, handle = found[1], due = tonumber(found[2]), group = name, entries = entries,
      second = found[3], second_due = found[4],
    }
  end

  -- Of the groups in `turns`, the one whose turn comes first among those with a due job.
  local function first_later(q, priority, now)
    local best, at = nil, 0
    while true do
      local found = call('ZRANGE', q.turns .. priority, at, at + 9, 'WITHSCORES')
      for i = 1, #found, 2 do
        local tag = tonumber(found[i + 1])
        if best and tag > best.tag then return best end
        local job = found[i] ~= NO_GROUP
          and first_job(q, priority, found[i], tag, q.groups_later)
        if job and job.due <= now and (not best or s.goes_before(job, best)) then best = job end
      end
      if #found < 20 then return best end
      at = at + 10
    end
  end

  -- Which of two first jobs goes before the other: by virtual time, due time and age.
  function s.goes_before(one, other)
    if one.tag ~= other.tag then return one.tag < other.tag end
    if one.due ~= other.due then return one.due < other.due end
    return number_at(one.handle, 1) < number_at(other.handle, 1)
  end

  -- The job with a group that goes next; nil if none is due.
  function s.next(q, priority, now)
    local found = call('ZRANGEBYSCORE', q.groups_next .. priority, '-inf', plain(now),
      'LIMIT', '0', '1')[1]
    if found then
      local name = found:sub(ID_AT - 1)
      local job = first_job(q, priority, name, s.virtual(q, priority), q.groups_next)
      if job and entry(job.handle, name) == found then return job end
      call('ZREM', q.groups_next .. priority, found) -- it is not the first job of the group
      enter(q, priority, name, nil)
      return s.next(q, priority, now)
    end
    local later = call('ZRANGE', q.groups_later .. priority, 0, 0, 'WITHSCORES')
    if later[2] and tonumber(later[2]) <= now then return first_later(q, priority, now) end
  end

  -- Take the first job out of its group. Its group has had no turn by that (see `start`).
  function s.take(q, priority, job)
    call('ZREM', group_of(q, priority, job.group), job.handle)
    call('ZREM', job.entries .. priority, entry(job.handle, job.group))
    if job.second then
      call('ZADD', job.entries .. priority, job.second_due, entry(job.second, job.group))
    end
  end

  -- How many jobs of all groups of a priority are queued, and how many of them are due.
  function s.count(q, priority, now)
    local all, due = 0, 0
    for _, entries in ipairs({ q.groups_next, q.groups_later }) do
      for _, found in ipairs(call('ZRANGE', entries .. priority, 0, -1)) do
        local group = group_of(q, priority, found:sub(ID_AT - 1))
        all = all + call('ZCARD', group)
        due = due + call('ZCOUNT', group, '-inf', now)
      end
    end
    return all, due
  end

  return s
end
