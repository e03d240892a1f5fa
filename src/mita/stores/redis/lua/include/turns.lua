-- The turns of the groups of one priority in one claim (see shares). They are decided in memory,
-- and what has changed is written once, at the end: a group with many starts costs no more commands
-- than one with a single start. `s` is shares().
--
-- A claim that takes n jobs reads n groups: each job that is taken changes the place of its own
-- group only, so no other group can come before all of these n.
--
-- `t` is a priority and its `virtual` time. `open` are the groups whose turn it is, from position
-- `at` on: all have the virtual time `level`, so they are sorted by due time and age of their first
-- jobs. The groups in `later` come after them, and `used` are those from which a job was taken. A
-- group has the `jobs` that were read (handle, due time, handle, …), how many of them were `taken`,
-- and `handle` and `due` of its first job that is left.

local function goes_before(one, other)
  if one.due ~= other.due then return one.due < other.due end
  one.age, other.age = one.age or number_at(one.handle, 1), other.age or number_at(other.handle, 1)
  return one.age < other.age
end

-- The jobs without a group from the list of their priority: handle, due time, handle, …
local function listed_jobs(q, c, t, first, part)
  local handles = call('LRANGE', ready_of(q, t.priority), first, first + part - 1)
  local found, ids = {}, {}
  for i, handle in ipairs(handles) do ids[i] = handle:sub(ID_AT) end
  for i, fixed in ipairs(#ids > 0 and call('HMGET', q.jobs, unpack(ids)) or {}) do
    found[i * 2 - 1] = handles[i]
    found[i * 2] = math.min(c.now, number_at(fixed or '', DUE_AT)) -- all in the list are due
  end
  return found
end

local function read_jobs(q, c, t, group)
  local jobs, part = group.jobs, group.part
  local first, found = #jobs / 2, nil
  if group.is_listed then
    found = listed_jobs(q, c, t, first, part)
  else
    found = call('ZRANGE', group.set, first, first + part - 1, 'WITHSCORES')
  end
  group.is_read, group.part = #found < part * 2, first == 0 and part or part * 2
  if first == 0 then
    group.jobs = found
  else
    for i = 1, #found do jobs[first * 2 + i] = found[i] end
  end
end

-- Look at the first job of a group that was not taken.
local function read_first(q, c, t, group)
  if group.is_single then
    local job = first_plain(q, c, t.priority)
    group.job, group.handle, group.due, group.age = job, job and job.handle, job and job.due, nil
    return
  end
  local at = group.taken * 2 + 1
  if not group.jobs[at] and not group.is_read then read_jobs(q, c, t, group) end
  group.handle, group.age = group.jobs[at], nil
  group.due = group.handle and tonumber(group.jobs[at + 1])
end

local function is_due(c, group) return group.handle and group.due <= c.now end

-- Bring the first of the open groups to its place among them.
local function sort_in(t)
  local open, at = t.open, t.at
  while open[at + 1] and goes_before(open[at + 1], open[at]) do
    open[at], open[at + 1] = open[at + 1], open[at]
    at = at + 1
  end
end

local function new_group(q, t, name, finished)
  local group = {
    name = name, finished = finished, jobs = {}, taken = 0, part = t.part, is_read = false,
    set = s.group_of(q, t.priority, name),
  }
  t.names[name] = group
  return group
end

-- The jobs without a group. They are read one by one if they are in both the list and the sorted
-- set, or if some in the list are only counted as removed.
local function add_jobs_without_group(q, c, t)
  local group = new_group(q, t, NO_GROUP, t.finished_without_group)
  group.is_listed = q.first_due[t.priority] > c.now and removed_from_list(q, t.priority) == 0
  group.is_single = not group.is_listed
  read_first(q, c, t, group)
  if not is_due(c, group) then return end
  if group.finished > t.virtual then
    t.later[1] = group
  else
    table.insert(t.open, 1, group)
    sort_in(t)
  end
end

local function turns_of(q, c, priority, most)
  local t = { priority = priority, open = {}, at = 1, later = {}, used = {}, names = {} }
  t.most, t.virtual = most, s.virtual(q, priority)
  t.before, t.level = t.virtual, t.virtual
  local entries = call('ZRANGEBYSCORE', q.groups_next .. priority, '-inf', c.moment,
    'WITHSCORES', 'LIMIT', '0', most)
  local many = #entries / 2 + call('ZCARD', q.groups_later .. priority)
  t.part = math.min(200, math.ceil(most / math.max(1, many)) + 1) -- jobs of a group to read at once
  for i = 1, #entries, 2 do
    local group = new_group(q, t, entries[i]:sub(ID_AT - 1), 0)
    group.entry, group.entries = entries[i], q.groups_next
    group.due, group.age = tonumber(entries[i + 1]), number_at(entries[i], 1)
    t.open[#t.open + 1] = group
  end
  t.finished_without_group = tonumber(call('ZSCORE', q.turns .. priority, NO_GROUP) or 0)
  add_jobs_without_group(q, c, t)
  return t
end

-- Read the jobs of a group that has an entry, which must be that of its first job.
local function read_entered(q, c, t, group)
  read_first(q, c, t, group)
  local handle, entry = group.handle, group.entry
  if not handle or s.entry(handle, group.name) ~= entry then
    call('ZREM', group.entries .. t.priority, entry)
    s.enter(q, t.priority, group.name, nil)
  end
  group.entry = nil
  if handle then sort_in(t) end
end

-- Read the groups whose turn comes later, if one of them has a due job.
local function read_later_groups(q, c, t)
  t.is_later_read = true
  local first_due = call('ZRANGE', q.groups_later .. t.priority, 0, 0, 'WITHSCORES')[2]
  if not first_due or tonumber(first_due) > c.now then return end
  local many, at, last = 0, 0, nil
  repeat
    local found = call('ZRANGE', q.turns .. t.priority, at, at + 49, 'WITHSCORES')
    at = at + 50
    for i = 1, #found, 2 do
      local name, finished = found[i], tonumber(found[i + 1])
      if many >= t.most and finished > last then return end
      if not t.names[name] then
        local group = new_group(q, t, name, finished)
        group.entries = q.groups_later
        read_first(q, c, t, group)
        if is_due(c, group) then
          t.later[#t.later + 1], many, last = group, many + 1, finished
        end
      end
    end
  until #found < 100
end

-- Open the groups whose turn comes next. Returns false if there are none.
local function open_later(q, c, t)
  if not t.is_later_read then read_later_groups(q, c, t) end
  local level, open, later = math.huge, {}, {}
  for _, group in ipairs(t.later) do level = math.min(level, group.finished) end
  for _, group in ipairs(t.later) do
    local list = group.finished == level and open or later
    list[#list + 1] = group
  end
  for i = 2, #open do -- mostly they are in order already, as in the turns before
    local group, at = open[i], i
    while at > 1 and goes_before(group, open[at - 1]) do
      open[at], at = open[at - 1], at - 1
    end
    open[at] = group
  end
  t.level, t.open, t.at, t.later = level, open, 1, later
  return #open > 0
end

-- The group whose turn it is; nil if no job is due.
local function next_group(q, c, t)
  while true do
    local group = t.open[t.at]
    if not group then
      if not open_later(q, c, t) then return nil end
    elseif group.entry then
      read_entered(q, c, t, group)
    elseif is_due(c, group) then
      return group
    else
      t.at = t.at + 1
    end
  end
end

-- Take the first job of the group whose turn it is.
local function take_first(q, c, t, group)
  if group.taken == 0 then t.used[#t.used + 1] = group end
  if group.is_single then take_plain(q, t.priority, group.job) end
  group.first = group.first or group.handle
  group.taken = group.taken + 1
  read_first(q, c, t, group)
end

-- The job that was taken has started, or not: then the group has another turn.
local function end_turn(c, t, group, has_started, weight)
  if has_started then
    t.virtual = t.level
    group.finished = s.finish_tag(t.level, weight)
    t.at = t.at + 1
    if is_due(c, group) then t.later[#t.later + 1] = group end
  elseif is_due(c, group) then
    sort_in(t)
  else
    t.at = t.at + 1
  end
end
