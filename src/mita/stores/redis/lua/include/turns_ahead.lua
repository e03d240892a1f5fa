-- How many jobs go before a job in a queue with groups: the turns are tried out, without a change
-- of what is stored. Behind TRIED_TURNS of them it is assumed that each group has a start for each
-- start of the job's own group.

local TRIED_TURNS = 1000

local function turns_ahead(q, r, now, ageing)
  local s, priorities, own = shares(), {}, r.fair or NO_GROUP

  -- The due jobs of a group: how many there are, and `job(i)` with due time, handle and weight.
  local function group_at(priority, name)
    local set = q.group .. priority .. ':' .. name
    local function job(i)
      local found = call('ZRANGE', set, i, i, 'WITHSCORES')
      local record = load_handle(q, found[1])
      return {
        due = tonumber(found[2]), handle = found[1], weight = record and record.weight or 1000,
      }
    end
    local finished = tonumber(call('ZSCORE', q.turns .. priority, name) or 0)
    return { many = call('ZCOUNT', set, '-inf', now), job = job, next = 0, finished = finished }
  end

  -- The same for the jobs without a group, which are in a list and a sorted set.
  local function jobs_without_group(priority)
    local jobs = {}
    local function add(handle, listed)
      local record = load_handle(q, handle)
      if not record or record.unreadable or (listed and record.touched) then return end
      if record.due <= now and record.handle == handle then
        jobs[#jobs + 1] = { due = record.due, handle = handle, weight = NORMAL_WEIGHT }
      end
    end
    for _, handle in ipairs(call('LRANGE', ready_of(q, priority), 0, TRIED_TURNS)) do
      add(handle, true)
    end
    local due = due_of(q, priority)
    local sorted = call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, TRIED_TURNS)
    for _, handle in ipairs(sorted) do add(handle, false) end
    table.sort(jobs, function(one, other)
      if one.due ~= other.due then return one.due < other.due end
      return number_at(one.handle, 1) < number_at(other.handle, 1)
    end)
    local finished = tonumber(call('ZSCORE', q.turns .. priority, NO_GROUP) or 0)
    return {
      many = #jobs, job = function(i) return jobs[i + 1] end, next = 0, finished = finished,
    }
  end

  local function read_priority(priority)
    local groups = { [NO_GROUP] = jobs_without_group(priority) }
    for _, entries in ipairs({ q.groups_next, q.groups_later }) do
      for _, entry in ipairs(call('ZRANGE', entries .. priority, 0, -1)) do
        local name = entry:sub(ID_AT - 1)
        groups[name] = group_at(priority, name)
      end
    end
    return { groups = groups, virtual = s.virtual(q, priority) }
  end

  -- The job of a priority that goes next; nil if none is due.
  local function first_of(p)
    local best
    for _, group in pairs(p.groups) do
      if group.next < group.many then
        group.head = group.head or group.job(group.next)
        local tag = math.max(p.virtual, group.finished)
        local job = { tag = tag, due = group.head.due, handle = group.head.handle, group = group }
        if not best or s.goes_before(job, best) then best = job end
      end
    end
    return best
  end

  local function start(p, job)
    p.virtual = job.tag
    job.group.finished = s.finish_tag(job.tag, job.group.head.weight)
    job.group.next, job.group.head, p.first = job.group.next + 1, nil, nil
  end

  local function next_priority()
    local best, rank
    for _, priority in ipairs(used_priorities(q)) do
      local p = priorities[priority]
      if p then p.first = p.first or first_of(p) end
      if p and p.first then
        local its_rank = ageing and p.first.due - priority * ageing or -priority
        if not best or its_rank < rank then best, rank = p, its_rank end
      end
    end
    return best
  end

  -- What is left after the turns that were tried out.
  local function estimate()
    local before = priorities[r.priority].groups[own].many
    if own ~= NO_GROUP then
      before = call('ZRANK', q.group .. r.priority .. ':' .. own, r.handle)
    end
    local more = 0
    local left = math.max(0, before - priorities[r.priority].groups[own].next)
    for _, group in pairs(priorities[r.priority].groups) do
      more = more + math.min(group.many - group.next, left)
    end
    return more
  end

  for _, priority in ipairs(used_priorities(q)) do
    if ageing or priority >= r.priority then priorities[priority] = read_priority(priority) end
  end
  for turn = 0, TRIED_TURNS do
    local p = next_priority()
    if not p or p.first.handle == r.handle then return turn end
    start(p, p.first)
  end
  return TRIED_TURNS + estimate()
end
