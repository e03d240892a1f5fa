-- Taking jobs in: items of (meta, id, fixed), where meta is '' for a plain job of the first queue that is due now, and otherwise
-- (queue number, priority, wait, at, flag, unique key) in MessagePack. All is looked at before anything is written.

local PLAIN = { 1, 5, 0, false, '0' }
local HEAD = string.char(0x9f, 0xcf)
local U64 = string.char(0xcf)
local BIN8 = string.char(0xc4)

local function u64(n) return struct.pack('>I8', n) end

-- Which of these ids exist, in any queue of this server.
local function known_ids(queues, registry, ids)
  local known, roots = {}, {}
  for _, q in ipairs(queues) do roots[q.jobs] = true end
  if registry then
    for _, name in ipairs(call('SMEMBERS', registry.queues)) do roots[registry.jobs_of(name)] = true end
  end
  for jobs in pairs(roots) do
    if call('HLEN', jobs) > 0 then
      local found = call('HMGET', jobs, unpack(ids))
      for i = 1, #ids do
        if found[i] then known[ids[i]] = true end
      end
    end
  end
  return known
end

-- The age of the next job: microseconds of real time, so that ages can be compared across queues, and never the same twice.
local function next_age(q)
  if not q.age then
    local time = call('TIME')
    q.age = math.max(tonumber(call('HGET', q.meta, 'age') or 0), tonumber(time[1]) * 1000000 + tonumber(time[2]))
  end
  q.age = q.age + 1
  return q.age
end

local function add(q, key, ...)
  local list = q.writes[key]
  if not list then
    list = {}
    q.writes[key] = list
  end
  local n = #list
  list[n + 1], list[n + 2] = ...
end

local function write_down(q, registry)
  if not q.age then return end
  call('HSET', q.meta, 'age', string.format('%.0f', q.age))
  call('HSET', q.jobs, unpack(q.writes.jobs))
  call('ZADD', q.ids, unpack(q.writes.ids))
  for priority = 0, 9 do
    if q.writes[priority] then call('ZADD', q.due[priority], unpack(q.writes[priority])) end
  end
  for key, id in pairs(q.uniques) do take_unique(q, key, id) end
  if registry then call('SADD', registry.queues, q.name) end
  rung[q.name] = true
end

-- Gives the position of every job that was not taken in, and the id of the one that is there instead.
local function take_in(queues, registry, from, n, now)
  local ids, metas, stamps, refused = {}, {}, {}, {}
  for i = 1, n do ids[i] = ARGV[from + i * 3 - 2] end
  local known = known_ids(queues, registry, ids)
  for _, q in ipairs(queues) do q.writes, q.uniques = {}, {} end
  for i = 1, n do
    local meta, id = ARGV[from + i * 3 - 3], ids[i]
    local m = meta == '' and PLAIN or metas[meta] or cmsgpack.unpack(meta)
    metas[meta] = m
    local q, unique = queues[m[1]], m[6]
    local there = known[id] and id or (unique and (q.uniques[unique] or unique_holder(q, unique, now)))
    if there then
      refused[#refused + 1] = i
      refused[#refused + 1] = there
    else
      local due = moment(m[3], m[4], now)
      local stamp = stamps[due]
      if not stamp then
        stamp = { HEAD .. u64(now) .. U64 .. u64(due), plain(due) }
        stamps[due] = stamp
      end
      local handle = u64(next_age(q)) .. m[5] .. id
      known[id] = true
      if unique then q.uniques[unique] = id end
      add(q, 'jobs', id, stamp[1] .. string.char(m[2]) .. BIN8 .. string.char(#handle) .. handle .. ARGV[from + i * 3 - 1])
      add(q, 'ids', '0', id)
      add(q, m[2], stamp[2], handle)
    end
  end
  for _, q in ipairs(queues) do write_down(q, registry) end
  return refused
end
