-- Taking jobs in. `items` are ids, each followed by its fixed half; `kinds` says of which kind they are, as numbers of jobs,
-- each followed by a meta: '' for plain jobs of the first queue that are due now, and otherwise (queue number, priority, wait,
-- at, flag, unique key) in MessagePack. All is looked at before the first write.

-- include build_records
local PLAIN = { 1, 5, 0, false, '0' }

-- Which of these ids exist: in the queues of this call or, unless they are `fresh` (see `NewJob`), in any of this server.
local function known_ids(queues, registry, ids, fresh)
  local known, roots = {}, {}
  for _, q in ipairs(queues) do roots[q.jobs] = true end
  if registry then
    registry.names = {}
    for _, name in ipairs(call('SMEMBERS', registry.queues)) do
      registry.names[name] = true
      if not fresh then roots[jobs_of(registry, name)] = true end
    end
  end
  for jobs in pairs(roots) do
    for i, found in ipairs(call('HMGET', jobs, unpack(ids))) do
      if found then known[ids[i]] = true end
    end
  end
  return known
end

-- Redis keeps a hash of few short values as one string, in which everything is looked for from the start. One long value
-- under a name that is no id makes it a real table, and stays, so that a hash that runs empty is still one.
local PAD = ('-'):rep(65)

local HASHES = { 'live', 'result', 'error', 'progress', 'unique' }

local function prepare(q)
  for _, hash in ipairs(HASHES) do call('HSET', q[hash], '', PAD) end
end

-- Gives the age of the newest job. Ages are counted in microseconds of real time and on from the newest of all queues of a
-- call, so that they can be compared across queues. A list is in order as long as the clock does not go back; while it does,
-- jobs go to the sorted set.
local function begin(q, now)
  local meta = call('HMGET', q.meta, 'newest', 'lines', 'index')
  q.new, q.used, q.index = not meta[1], meta[2] or '', meta[3]
  if meta[1] and #meta[1] == 16 then q.age, q.came = struct.unpack(NEWEST, meta[1]) else q.age, q.came = 0, 0 end
  q.lists = q.came <= now
  q.fixed, q.lines, q.uniques, q.taken = {}, {}, {}, {}
  if q.index then call('ZCARD', q.ids) end -- here and below: a key of another type must be found before the first write
  if q.new then
    for _, hash in ipairs(HASHES) do call('HLEN', q[hash]) end
  end
  return q.age
end

local function add_to_index(q)
  local names = {}
  for i = 1, #q.fixed, 2 do names[i], names[i + 1] = '0', q.fixed[i] end
  call('ZADD', q.ids, unpack(names))
end

local function write_down(q, registry, now)
  if #q.fixed == 0 then return end
  if q.new then prepare(q) end
  call('HSET', q.meta, 'newest', pack_struct(NEWEST, q.age, math.max(q.came, now)))
  call('HSET', q.jobs, unpack(q.fixed))
  if q.index then add_to_index(q) end
  for _, line in pairs(q.lines) do
    if #line > 0 then
      use_line(q, line.priority)
      call(line.command, line.key, unpack(line))
    end
  end
  for key, id in pairs(q.uniques) do take_unique(q, key, id) end
  if registry and not registry.names[q.name] then call('SADD', registry.queues, q.name) end
  rung[q.name] = true
end

-- The half of a line that jobs go to: the list when they are due, else the sorted set.
local function line_of(q, priority, listed)
  local name = listed and priority + 10 or priority
  local line = q.lines[name]
  if not line then
    line = { priority = priority, command = listed and 'RPUSH' or 'ZADD' }
    line.key = listed and ready_of(q, priority) or due_of(q, priority)
    call(listed and 'LLEN' or 'ZCARD', line.key)
    q.lines[name] = line
  end
  return line
end

-- What all jobs of one meta have in common: queue, priority, due time, flag, and their half of a line.
local function kind_of(queues, meta, now)
  local m = meta == '' and PLAIN or cmsgpack.unpack(meta)
  local q, due = queues[m[1]], moment(m[3], m[4], now)
  local listed = due == now and q.lists
  local unique = m[6]
  if unique then
    call('ZCARD', q.unique_ends)
    q.taken[unique] = q.taken[unique] or unique_holder(q, unique, now)
  end
  return {
    q = q, line = line_of(q, m[2], listed), due = due, priority = m[2], score = not listed and plain(due), flag = m[5],
    unique = unique,
  }
end

-- Of the `n` jobs of one kind that stand among `items` from `at` on, those that are not there yet. Notes of the others their
-- position and the id of the one that is there instead.
local function wanted_of(kind, items, at, n, known, refused)
  local wanted, m, unique, taken = {}, 0, kind.unique, kind.q.taken
  for i = at, at + n * 2 - 2, 2 do
    local id = items[i]
    local there = known[id] and id or (unique and taken[unique])
    if there then
      refused[#refused + 1] = (i - items.first) / 2 + 1
      refused[#refused + 1] = there
    else
      wanted[m + 1], wanted[m + 2] = id, items[i + 1]
      m = m + 2
      known[id] = true
      if unique then taken[unique], kind.q.uniques[unique] = id, id end
    end
  end
  return wanted
end

-- Gives the position of every job that was not taken in, and the id of the one that is there instead. Kinds and items are
-- tables with the place of their `first`.
local function take_in(queues, registry, kinds, items, now, fresh)
  local ids, known_kinds, refused, at = {}, {}, {}, items.first
  for i = at, #items, 2 do ids[#ids + 1] = items[i] end
  local known = known_ids(queues, registry, ids, fresh)
  local age = microseconds()
  for _, q in ipairs(queues) do age = math.max(age, begin(q, now)) end
  for i = kinds.first, kinds.last, 2 do
    local n, meta = tonumber(kinds[i]), kinds[i + 1]
    local kind = known_kinds[meta] or kind_of(queues, meta, now)
    local wanted, first, last = items, at, at + n * 2 - 2
    if not fresh or kind.unique or next(known) then -- else all are new, and each id is there once
      wanted = wanted_of(kind, items, at, n, known, refused)
      first, last = 1, #wanted
    end
    age = put(wanted, first, last, now, kind.due, kind.priority, kind.flag, kind.score, age, kind.q.fixed, kind.line)
    known_kinds[meta], kind.q.age = kind, age
    at = at + n * 2
  end
  for _, q in ipairs(queues) do write_down(q, registry, now) end
  return refused
end
