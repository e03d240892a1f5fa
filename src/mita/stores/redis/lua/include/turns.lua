-- The turns of the groups of one priority in one claim (see shares). They are decided in memory,
-- and what has changed is written once, at the end: a group with many starts costs no more commands
-- than one with a single start. `s` is shares().
--
-- A claim that takes n jobs reads n groups: each job that is taken changes the place of its own
-- group only, so no other group can come before all of these n.
--
-- `t` is a priority: its virtual time, `fresh` groups in the order of their turns, and the groups
-- that were `used`: a job was taken from them. A group has the jobs that were read, and `at`: how
-- many of them were taken.

local function tag_of(t, group) return math.max(t.virtual, group.finished) end

-- Read the next jobs of a group.
local function read_jobs(q, t, group)
  local first, ids = #group.jobs, {}
  local found = call('ZRANGE', group.set, first, first + t.part - 1, 'WITHSCORES')
  group.is_read = #found < t.part * 2
  for i = 1, #found, 2 do
    ids[#ids + 1] = found[i]:sub(ID_AT)
    local job = { handle = found[i], due = tonumber(found[i + 1]), group = group.name }
    group.jobs[#group.jobs + 1] = job
  end
  if #ids == 0 then return end
  for i, fixed in ipairs(call('HMGET', q.jobs, unpack(ids))) do
    group.jobs[first + i].fixed = fixed
  end
end

-- The first job of a group that was not taken; nil if there is none.
local function first_of_group(q, t, group)
  while not group.jobs[group.at + 1] and not group.is_read do read_jobs(q, t, group) end
  local job = group.jobs[group.at + 1]
  if group.entry and group.at == 0 then -- the entry must be that of the first job
    if not job or s.entry(job.handle, group.name) ~= group.entry then
      call('ZREM', group.entries .. t.priority, group.entry)
      s.enter(q, t.priority, group.name, nil)
    end
    group.entry = nil
  end
  if job then job.tag = tag_of(t, group) end
  return job
end

local function new_group(q, t, name, finished, entries, entry)
  return {
    name = name, finished = finished, entries = entries, entry = entry, jobs = {}, at = 0,
    is_read = false, set = s.group_of(q, t.priority, name),
  }
end

-- Read the groups whose turn comes later, if one of them has a due job.
local function read_later_groups(q, t, now)
  t.is_later_read = true
  local first_due = call('ZRANGE', q.groups_later .. t.priority, 0, 0, 'WITHSCORES')[2]
  if not first_due or tonumber(first_due) > now then return end
  local groups, at, last = {}, 0, nil
  repeat
    local found = call('ZRANGE', q.turns .. t.priority, at, at + 49, 'WITHSCORES')
    at = at + 50
    for i = 1, #found, 2 do
      local name, finished = found[i], tonumber(found[i + 1])
      if #groups >= t.most and finished > last then found = {} break end
      local group = name ~= NO_GROUP and not t.used_names[name]
        and new_group(q, t, name, finished, q.groups_later)
      local job = group and first_of_group(q, t, group)
      if job and job.due <= now then groups[#groups + 1], last = group, finished end
    end
  until #found < 100
  table.sort(groups, function(one, other)
    return s.goes_before(one.jobs[1], other.jobs[1])
  end)
  for _, group in ipairs(groups) do t.fresh[#t.fresh + 1] = group end
end

local function turns_of(q, priority, now, most)
  local t = { priority = priority, fresh = {}, next_fresh = 1, used = {}, used_names = {} }
  t.most, t.virtual = most, s.virtual(q, priority)
  t.before, t.unstarted = t.virtual, 0
  local entries = call('ZRANGEBYSCORE', q.groups_next .. priority, '-inf', plain(now),
    'LIMIT', '0', most)
  local many = #entries + call('ZCARD', q.turns .. priority)
  t.part = math.min(200, math.ceil(most / math.max(1, many)) + 1) -- jobs of a group to read at once
  for i, entry in ipairs(entries) do
    t.fresh[i] = new_group(q, t, entry:sub(ID_AT - 1), 0, q.groups_next, entry)
  end
  local finished = tonumber(call('ZSCORE', q.turns .. priority, NO_GROUP) or 0)
  t.without_group = { name = NO_GROUP, finished = finished }
  return t
end

-- The job of the first fresh group that has a due job, and its group.
local function next_fresh(q, t, now)
  while true do
    local group = t.fresh[t.next_fresh]
    if not group then
      if t.is_later_read then return nil end
      read_later_groups(q, t, now)
    else
      local job = first_of_group(q, t, group)
      if job and job.due <= now then return job, group end
      t.next_fresh = t.next_fresh + 1
    end
  end
end

-- The job that goes next, and its group; nil if none is due. `plain_job` is the first job without a
-- group. While the virtual time is that of before the claim, a group that has had a turn comes
-- after all others.
local function next_turn(q, t, plain_job, now)
  local best, group = next_fresh(q, t, now)
  if plain_job then
    plain_job.tag = tag_of(t, t.without_group)
    if not best or s.goes_before(plain_job, best) then
      best, group = plain_job, t.without_group
    end
  end
  if best and best.tag == t.before and t.unstarted == 0 then return best, group end
  for i = 1, #t.used do
    local other = t.used[i]
    local job = other.jobs[other.at + 1] or (not other.is_read and first_of_group(q, t, other))
    local tag = math.max(other.finished, t.virtual)
    if job and job.due <= now and (not best or tag <= best.tag) then
      job.tag = tag
      if not best or s.goes_before(job, best) then best, group = job, other end
    end
  end
  return best, group
end

-- Take the job of a group that goes next.
local function take_from_group(t, group)
  if group == t.fresh[t.next_fresh] and not t.used_names[group.name] then
    t.next_fresh = t.next_fresh + 1
    t.used[#t.used + 1], t.used_names[group.name] = group, true
    t.unstarted = t.unstarted + 1
  end
  group.at = group.at + 1
end

-- The job that was taken from a group has started.
local function count_turn(t, group, job, weight)
  t.virtual = job.tag
  group.finished = s.finish_tag(job.tag, weight)
  if group.has_started or group == t.without_group then return end
  group.has_started = true
  t.unstarted = t.unstarted - 1
end

-- Groups whose turn has come leave `turns`; a group without jobs is forgotten by that.
local function write_virtual(q, t)
  if t.virtual == t.before then return end
  local priority, turns, last = t.priority, q.turns .. t.priority, plain(t.virtual)
  call('HSET', q.meta, 'virtual:' .. priority, last)
  q.virtual[priority] = t.virtual
  local over = call('ZRANGEBYSCORE', turns, '-inf', last)
  if #over == 0 then return end
  call('ZREMRANGEBYSCORE', turns, '-inf', last)
  for _, name in ipairs(over) do
    local first, due = s.first(q, priority, name)
    local entry = first and not t.used_names[name] and s.entry(first, name)
    if entry and call('ZREM', q.groups_later .. priority, entry) == 1 then
      call('ZADD', q.groups_next .. priority, due, entry)
    end
  end
end

-- Write what the turns of this claim have changed.
local function write_turns(q, t)
  write_virtual(q, t)
  local priority, turns = t.priority, q.turns .. t.priority
  local plain_turn = t.without_group.finished
  if plain_turn > t.virtual then call('ZADD', turns, plain(plain_turn), NO_GROUP) end
  for _, group in ipairs(t.used) do
    local job = first_of_group(q, t, group)
    call('ZREMRANGEBYRANK', group.set, '0', group.at - 1)
    call('ZREM', group.entries .. priority, s.entry(group.jobs[1].handle, group.name))
    local is_later = group.finished > t.virtual
    if is_later then call('ZADD', turns, plain(group.finished), group.name) end
    if job then
      local entries = is_later and q.groups_later or q.groups_next
      call('ZADD', entries .. priority, plain(job.due), s.entry(job.handle, group.name))
    end
  end
end
