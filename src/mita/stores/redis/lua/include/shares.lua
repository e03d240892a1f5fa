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

local made_shares
local function shares()
  if made_shares then return made_shares end
  local s = {}
  made_shares = s

  function s.group_of(q, priority, name) return q.group .. priority .. ':' .. name end

  function s.entry(handle, name) return handle:sub(1, ID_AT - 2) .. name end

  -- Handle and due time of the first job of a group.
  function s.first(q, priority, name)
    local found = call('ZRANGE', s.group_of(q, priority, name), 0, 0, 'WITHSCORES')
    return found[1], tonumber(found[2])
  end

  local function entries_of(q, priority, name)
    local later = call('ZSCORE', q.turns .. priority, name)
    return (later and q.groups_later or q.groups_next) .. priority
  end

  -- The jobs of a group have changed. `before` is the handle of the job that was its first.
  function s.enter(q, priority, name, before)
    local entries, first, due = entries_of(q, priority, name), s.first(q, priority, name)
    if before then call('ZREM', entries, s.entry(before, name)) end
    if first then call('ZADD', entries, due, s.entry(first, name)) end
  end

  -- Add jobs to a group: due time and handle of each.
  function s.add_all(q, priority, name, jobs)
    local before = s.first(q, priority, name)
    call('ZADD', s.group_of(q, priority, name), unpack(jobs))
    s.enter(q, priority, name, before)
    set_use(q, GROUPS, true)
  end

  function s.add(q, r) s.add_all(q, r.priority, r.fair, { plain(r.due), r.handle }) end

  function s.remove(q, r)
    local before = s.first(q, r.priority, r.fair)
    call('ZREM', s.group_of(q, r.priority, r.fair), r.handle)
    s.enter(q, r.priority, r.fair, before)
  end

  -- Virtual times

  function s.virtual(q, priority)
    q.virtual = q.virtual or {}
    if not q.virtual[priority] then
      q.virtual[priority] = tonumber(call('HGET', q.meta, 'virtual:' .. priority) or 0) or 0
    end
    return q.virtual[priority]
  end

  function s.finish_tag(start, weight) return start + math.floor(ONE_TURN / weight) end

  -- Which of two first jobs goes before the other: by virtual time, due time and age.
  function s.goes_before(one, other)
    if one.tag ~= other.tag then return one.tag < other.tag end
    if one.due ~= other.due then return one.due < other.due end
    return number_at(one.handle, 1) < number_at(other.handle, 1)
  end

  -- How many jobs of all groups of a priority are queued, how many of them are due, and how many
  -- have no due time.
  function s.count(q, priority, now)
    local all, due, waiting = 0, 0, 0
    for _, entries in ipairs({ q.groups_next, q.groups_later }) do
      for _, found in ipairs(call('ZRANGE', entries .. priority, 0, -1)) do
        local group = s.group_of(q, priority, found:sub(ID_AT - 1))
        all = all + call('ZCARD', group)
        due = due + call('ZCOUNT', group, '-inf', now)
        waiting = waiting + call('ZCOUNT', group, LATEST, LATEST)
      end
    end
    return all, due, waiting
  end

  return s
end
