-- Inserting jobs. `items` are ids, each followed by the client's fields. `kinds` are numbers of
-- jobs, each followed by their kind: '' for plain jobs of the first queue, else (number of the
-- queue, priority, delay, point in time, flag, unique key, throttle, debounce, debounce_max, group)
-- in MessagePack. Everything is read and checked before the first write.

-- include numbers
-- include use_priority
-- include moment
-- include id_index
-- include notify
-- include shares
-- include build_records

-- What only jobs with a unique key or a group need. The server makes functions anew at every call,
-- so these are made when one is needed.
local made_rare
local function rare()
  if made_rare then return made_rare end
-- include type_checks
-- include record
-- include unique_keys
-- include twins
-- include gates
  made_rare = {
    holder = unique_holder, take = take_unique, meet_twin = meet_twin, enter_wakes = enter_wakes,
    check_used_types = check_used_types, check_group_types = check_group_types,
  }
  return made_rare
end

-- After the last change of the script (see gates).
local function enter_wakes_of(queues, now)
  for _, q in ipairs(queues) do
    if q.touched_keys then rare().enter_wakes(q, now) end
  end
end

local PLAIN_KIND = { 1, DEFAULT_PRIORITY, 0, false, '0' }

-- Which of these ids exist, in the queues of this call or, unless they are fresh (see `NewJob`), in
-- any queue of this server.
local function existing_ids(queues, registry, ids, fresh)
  local existing, hashes = {}, {}
  for _, q in ipairs(queues) do hashes[q.jobs] = true end
  if registry then
    registry.names = {}
    for _, name in ipairs(call('SMEMBERS', registry.queues)) do
      registry.names[name] = true
      if not fresh then hashes[jobs_of(registry, name)] = true end
    end
  end
  for hash in pairs(hashes) do
    for i, found in ipairs(call('HMGET', hash, unpack(ids))) do
      if found then existing[ids[i]] = true end
    end
  end
  return existing
end

-- Redis keeps a hash of few short values as one string, and searches it from the start. One long
-- value, under a name that is no id, makes it a real hash table; it stays in the hash, so that the
-- hash does not change back when it is empty.
local PAD = ('-'):rep(65)
local PADDED_HASHES = { 'live', 'result', 'error', 'progress', 'unique' }

-- Read what a queue knows of its newest job. Returns the age of that job. Ages count in
-- microseconds of real time, and up from the newest of all queues of a call, so that they can be
-- compared across queues. A list is in order as long as the clock does not go back; while it does,
-- jobs go to the sorted set.
local function read_newest(q, now)
  local meta = call('HMGET', q.meta, 'newest', 'lines', 'index')
  local newest = meta[1]
  q.new, q.used, q.index = not newest, meta[2] or '', meta[3]
  q.first_job = q.new
  q.age, q.came = 0, 0
  if newest and #newest == 16 then q.age, q.came = struct.unpack(NEWEST_FORMAT, newest) end
  q.use_list = q.came <= now
  q.fixed, q.indexes, q.uniques, q.taken = {}, {}, {}, {}
  -- here and below: a key of another type must be found before the first write
  if q.index then call('ZCARD', q.ids) end
  if q.new then
    for _, hash in ipairs(PADDED_HASHES) do call('HLEN', q[hash]) end
  end
  return q.age
end

local function add_to_id_index(q)
  local names = {}
  for i = 1, #q.fixed, 2 do names[i], names[i + 1] = '0', q.fixed[i] end
  call('ZADD', q.ids, unpack(names))
end

local function clear(list)
  for i = #list, 1, -1 do list[i] = nil end
end

-- Write the jobs that were built. Unless they are the last of the call (`more`), forget them.
local function write_jobs(q, registry, now, more)
  if #q.fixed == 0 then return end
  if q.new then
    for _, hash in ipairs(PADDED_HASHES) do call('HSET', q[hash], '', PAD) end
  end
  call('HSET', q.meta, 'newest', pack_struct(NEWEST_FORMAT, q.age, math.max(q.came, now)))
  call('HSET', q.jobs, unpack(q.fixed))
  if q.index then add_to_id_index(q) end
  for _, index in pairs(q.indexes) do
    if #index > 0 then
      use_priority(q, index.priority)
      if index.group then
        shares().add_all(q, index.priority, index.group, index)
      else
        call(index.command, index.key, unpack(index))
      end
      if more then clear(index) end
    end
  end
  for key, taken in pairs(q.uniques) do
    rare().take(q, key, taken.id, taken.throttled_until)
  end
  if registry and not registry.names[q.name] then call('SADD', registry.queues, q.name) end
  topics[q.name] = true
  if more then clear(q.fixed) end
  q.uniques, q.new = {}, false
end

-- What is to be added to the sorted set of a group.
local priorities_with_groups = {}
local function index_of_group(q, priority, group)
  local name = priority .. ':' .. group
  if not q.indexes[name] then
    call('ZCARD', q.group .. name)
    if not priorities_with_groups[q.root .. priority] then rare().check_group_types(q, priority) end
    priorities_with_groups[q.root .. priority] = true
    q.indexes[name] = { priority = priority, group = group }
  end
  return q.indexes[name]
end

-- What is to be added to the list of a priority (`listed`), or else to its sorted set.
local function index_of(q, priority, listed)
  local key = listed and ready_of(q, priority) or due_of(q, priority)
  local index = q.indexes[key]
  if not index then
    index = { priority = priority, command = listed and 'RPUSH' or 'ZADD', key = key }
    call(listed and 'LLEN' or 'ZCARD', key)
    q.indexes[key] = index
  end
  return index
end

-- What all jobs of one kind have in common.
local function read_kind(queues, packed, now)
  local k = packed == '' and PLAIN_KIND or cmsgpack.unpack(packed)
  local q, due, unique, throttle, group = queues[k[1]], moment(k[3], k[4], now), k[6], k[7], k[10]
  local listed = due == now and q.use_list and not group
  if unique then
    call('ZCARD', q.unique_ends)
    q.taken[unique] = q.taken[unique] or rare().holder(q, unique, now)
  end
  return {
    q = q, index = group and index_of_group(q, k[2], group) or index_of(q, k[2], listed),
    priority = k[2], due = due, flag = k[5], score = not listed and plain(due), unique = unique,
    throttled_until = throttle and now + throttle, debounce = k[8], debounce_max = k[9],
  }
end

-- Of the `n` jobs of one kind in `items` from `at` on, those that do not exist yet. Appends to
-- `refused` the position of each other job, and the id of the job that is there instead.
local function new_jobs(kind, items, at, n, existing, refused)
  local new, m, unique, taken = {}, 0, kind.unique, kind.q.taken
  for i = at, at + n * 2 - 2, 2 do
    local id = items[i]
    local there = existing[id] and id or (unique and taken[unique])
    if there then
      refused[#refused + 1] = (i - items.first) / 2 + 1
      refused[#refused + 1] = there
    else
      new[m + 1], new[m + 2] = id, items[i + 1]
      m = m + 2
      existing[id] = true
      if unique then
        taken[unique] = id
        kind.q.uniques[unique] = { id = id, throttled_until = kind.throttled_until }
      end
    end
  end
  return new
end

-- Of the `n` jobs of one kind that debounce, those that are to be inserted. A job with its key that
-- waits is moved instead; one that runs loses the key. All earlier jobs of this call are written,
-- and each job of these before the next, because they act on each other.
local function debounce_jobs(kind, items, at, n, existing, refused, write, age, now)
  local q = kind.q
  for i = at, at + n * 2 - 2, 2 do
    local id = items[i]
    local there = existing[id] and id or rare().meet_twin(q, kind, items[i + 1], now)
    if there then
      refused[#refused + 1] = (i - items.first) / 2 + 1
      refused[#refused + 1] = there
    else
      existing[id] = true
      q.taken[kind.unique] = id
      q.uniques[kind.unique] = { id = id, throttled_until = kind.throttled_until }
      age = build_records(kind, { id, items[i + 1] }, 1, 1, now, age, q.fixed, kind.index)
      q.age = age
      write(true)
    end
  end
  return age
end

-- Returns the position of every job that was not inserted, each followed by the id of the job that
-- is there instead. `items` begin at `items.first`.
local function insert_jobs(queues, registry, kinds, items, now, fresh)
  local ids, read_kinds, refused, at = {}, {}, {}, items.first
  for i = at, #items, 2 do ids[#ids + 1] = items[i] end
  local existing = existing_ids(queues, registry, ids, fresh)
  local age = microseconds()
  for _, q in ipairs(queues) do age = math.max(age, read_newest(q, now)) end
  local function write(more)
    for _, q in ipairs(queues) do write_jobs(q, registry, now, more) end
  end
  for i = 1, #kinds, 2 do
    local n, packed = tonumber(kinds[i]), kinds[i + 1]
    local kind = read_kinds[packed] or read_kind(queues, packed, now)
    read_kinds[packed] = kind
    if kind.debounce then
      for _, q in ipairs(queues) do
        if not q.types_checked then rare().check_used_types(q) end
      end
      write(true)
      age = debounce_jobs(kind, items, at, n, existing, refused, write, age, now)
    else
      local new, first, last = items, at, at + n * 2 - 2
      if not fresh or kind.unique or next(existing) then -- else all are new, each with its own id
        new = new_jobs(kind, items, at, n, existing, refused)
        first, last = 1, #new
      end
      age = build_records(kind, new, first, last, now, age, kind.q.fixed, kind.index)
      kind.q.age = age
    end
    at = at + n * 2
  end
  write()
  return refused
end
