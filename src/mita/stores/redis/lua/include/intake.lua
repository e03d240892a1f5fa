-- Taking jobs in: items of (meta, id, fixed), where meta is '' for a plain job of the first queue that is due now, and
-- otherwise (queue number, priority, wait, at, flag, unique key) in MessagePack. All is looked at before the first write.

local PLAIN = { 1, 5, 0, false, '0' }
local HEAD = string.char(0x9f, 0xcf)
local U64 = string.char(0xcf)
local BIN8 = string.char(0xc4)
local char, pack_struct = string.char, struct.pack

-- Which of these ids exist, in any queue of this server.
local function known_ids(queues, registry, ids)
  local known, roots = {}, {}
  for _, q in ipairs(queues) do roots[q.jobs] = true end
  if registry then
    registry.names = {}
    for _, name in ipairs(call('SMEMBERS', registry.queues)) do
      registry.names[name] = true
      roots[registry.jobs_of(name)] = true
    end
  end
  for jobs in pairs(roots) do
    local found = call('HMGET', jobs, unpack(ids))
    for i = 1, #ids do
      if found[i] then known[ids[i]] = true end
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

-- The age of the newest job is counted in microseconds of real time, so that ages can be compared across queues.
local function begin(q)
  local meta = call('HMGET', q.meta, 'age', 'lines')
  q.new, q.used = not meta[1], meta[2] or ''
  q.age = math.max(tonumber(meta[1] or 0), microseconds())
  q.n, q.fixed, q.names, q.lines, q.uniques = 0, {}, {}, {}, {}
  call('ZCARD', q.ids) -- here and below: a key of another type must be found before the first write
  if q.new then
    for _, hash in ipairs(HASHES) do call('HLEN', q[hash]) end
  end
end

local function write_down(q, registry)
  if q.n == 0 then return end
  if q.new then prepare(q) end
  call('HSET', q.meta, 'age', plain(q.age))
  call('HSET', q.jobs, unpack(q.fixed))
  call('ZADD', q.ids, unpack(q.names))
  for priority, line in pairs(q.lines) do
    if line.n > 0 then
      use_line(q, priority)
      call('ZADD', q.due[priority], unpack(line))
    end
  end
  for key, id in pairs(q.uniques) do take_unique(q, key, id) end
  if registry and not registry.names[q.name] then call('SADD', registry.queues, q.name) end
  rung[q.name] = true
end

-- What all jobs of one meta have in common: queue, priority, due time, flag, and the beginning of their fixed half.
local function kind_of(queues, meta, now)
  local m = meta == '' and PLAIN or cmsgpack.unpack(meta)
  local q, due = queues[m[1]], moment(m[3], m[4], now)
  local line = q.lines[m[2]]
  if not line then
    line = { n = 0 }
    call('ZCARD', q.due[m[2]])
    q.lines[m[2]] = line
  end
  if m[6] then call('ZCARD', q.unique_ends) end
  local head = HEAD .. pack_struct('>I8', now) .. U64 .. pack_struct('>I8', due) .. char(m[2]) .. BIN8
  return { q = q, line = line, due = plain(due), flag = m[5], unique = m[6], head = head }
end

-- Gives the position of every job that was not taken in, and the id of the one that is there instead. The items are among
-- the arguments unless others are given.
local function take_in(queues, registry, from, n, now, given)
  local args, ids, kinds, refused = given or ARGV, {}, {}, {}
  for i = 1, n do ids[i] = args[from + i * 3 - 2] end
  local known = known_ids(queues, registry, ids)
  for _, q in ipairs(queues) do begin(q) end
  for i = 1, n do
    local at, id = from + i * 3 - 3, ids[i]
    local kind = kinds[args[at]]
    if not kind then
      kind = kind_of(queues, args[at], now)
      kinds[args[at]] = kind
    end
    local q, unique = kind.q, kind.unique
    local there = known[id] and id or (unique and (q.uniques[unique] or unique_holder(q, unique, now)))
    if there then
      refused[#refused + 1] = i
      refused[#refused + 1] = there
    else
      local age, fixed, line, names, m, l = q.age + 1, q.fixed, kind.line, q.names, q.n, kind.line.n
      local handle = pack_struct('>I8', age) .. kind.flag .. id
      fixed[m + 1], fixed[m + 2] = id, kind.head .. char(#handle) .. handle .. args[at + 2]
      names[m + 1], names[m + 2] = '0', id
      line[l + 1], line[l + 2] = kind.due, handle
      known[id], q.age, q.n, line.n = true, age, m + 2, l + 2
      if unique then q.uniques[unique] = id end
    end
  end
  for _, q in ipairs(queues) do write_down(q, registry) end
  return refused
end
