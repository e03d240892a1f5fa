-- Settling plain successes of jobs with one key, many at a time. They free their keys together, and
-- each key wakes the jobs that may start then. A run of which something was asked is settled by
-- settle_one.

-- include live_tails

-- Free keys: `ended` has the handles of each. Afterwards `q.holder_counts` says how many jobs still
-- have each of them.
local function free_keys(q, keys, ended)
  if #keys == 0 then return end
  local names, free = {}, {}
  q.holder_counts = q.holder_counts or {}
  for i, key in ipairs(keys) do
    names[i] = q.holders .. key
    call('SREM', names[i], unpack(ended[key]))
    if q.flow ~= '' then touch_key(q, key) end
  end
  local are_held = call('EXISTS', unpack(names)) > 0
  for i, key in ipairs(keys) do
    local count = are_held and call('SCARD', names[i]) or 0
    q.holder_counts[key] = count
    if count == 0 then free[#free + 1] = key end
  end
  if #free > 0 then call('SREM', q.held, unpack(free)) end
end

-- Free a key by one run after the other, and wake after each.
local function free_one_by_one(q, key, handles, now)
  for _, handle in ipairs(handles) do
    free_key(q, { handle = handle }, key)
    wake_next(q, key, now)
  end
end

-- A function of a job that waits at a key: what `read_key` reads of it, its present priority and
-- due time, and `queued`, its live part after it was woken. nil if the general path has to look at
-- it: it has gates or a group, cannot be read, or does not wait there. The key is the last field of
-- its live part; what is before it is read once for all jobs that have the same.
local function reader_of_waiting()
  local known, no_key = {}, cmsgpack.pack(false)
  return function(handle, fixed, live, key)
    local flag, id, packed = handle:byte(FLAG_AT), handle:sub(ID_AT), cmsgpack.pack(key)
    if not fixed or not live or flag >= FIRST_FLOW_FLAG then return nil end
    local state, token, priority, due, tail = split_live(live)
    if state ~= State.BLOCKED or not priority or not due then return nil end
    if tail:sub(-#packed) ~= packed then return nil end
    local head = tail:sub(1, -#packed - 1)
    if known[head] == nil then
      local whole = read_live(live)
      known[head] = whole and whole.blocked_at == key or false
    end
    local ok, r = pcall(read_key, id, fixed, flag)
    if not known[head] or not ok or r.handle ~= handle then return nil end
    r.priority, r.due = priority, due
    r.queued = join_live(State.QUEUED, token, priority, due, head .. no_key)
    return r
  end
end

-- Read the first jobs that wait at these keys: for each key as many as runs with it have ended.
-- Returns for each key such jobs, and whether there are more. The jobs are false if the general
-- path has to look at one of them.
local function read_waiting(q, keys, ended)
  local handles, ids, key_of, waiting, more = {}, {}, {}, {}, {}
  for _, key in ipairs(keys) do
    local ends = #ended[key]
    local found = call('ZRANGE', q.waiting .. key, '0', ends)
    more[key], waiting[key] = #found > ends, {}
    for i = 1, math.min(#found, ends) do
      local at = #handles + 1
      handles[at], ids[at], key_of[at] = found[i], found[i]:sub(ID_AT), key
    end
  end
  if #ids == 0 then return waiting, more end
  local fixed, lives = call('HMGET', q.jobs, unpack(ids)), call('HMGET', q.live, unpack(ids))
  local read = reader_of_waiting()
  for i, handle in ipairs(handles) do
    local key = key_of[i]
    local of_key, r = waiting[key], read(handle, fixed[i], lives[i], key)
    if of_key and r then of_key[#of_key + 1] = r else waiting[key] = false end
  end
  return waiting, more
end

-- Those of the waiting jobs that are woken: each end of a run wakes the first one, if it has a
-- place then.
local function to_wake(waiting, ends, holders)
  local woken = {}
  for i = ends - 1, 0, -1 do
    local r = waiting[#woken + 1]
    if r and r.limit > holders + i then woken[#woken + 1] = r end
  end
  return woken
end

-- Put these jobs back into the queue, as `move` does.
local function queue_woken(q, woken)
  local handles, lives, due = {}, {}, {}
  for i, r in ipairs(woken) do
    handles[i], lives[i * 2 - 1], lives[i * 2] = r.handle, r.id, r.queued
    local members = due[r.priority] or {}
    due[r.priority] = members
    members[#members + 1], members[#members + 2] = plain(r.due), r.handle
  end
  call('ZREM', q.blocked, unpack(handles))
  call('HSET', q.live, unpack(lives))
  for priority, members in pairs(due) do
    use_priority(q, priority)
    call('ZADD', due_of(q, priority), unpack(members))
  end
  topics[q.name] = true
end

-- Wake the jobs that wait at keys which were freed just now.
local function wake_waiting(q, keys, ended, waiting, more)
  local all, no_more = {}, {}
  for _, key in ipairs(keys) do
    local woken, handles = to_wake(waiting[key], #ended[key], q.holder_counts[key]), {}
    for i, r in ipairs(woken) do all[#all + 1], handles[i] = r, r.handle end
    if #woken > 0 then call('ZREM', q.waiting .. key, unpack(handles)) end
    if #woken == #waiting[key] and not more[key] then no_more[#no_more + 1] = key end
  end
  if #no_more > 0 then call('SREM', q.waited, unpack(no_more)) end
  if #all > 0 then queue_woken(q, all) end
end

-- Runs with these keys have ended. If nothing waits for any of them, or if only limits of jobs
-- decide who is woken, the keys are freed together.
local function free_and_wake(q, keys, ended, now)
  local names, together = {}, {}
  for i, key in ipairs(keys) do names[i] = q.waiting .. key end
  if call('EXISTS', unpack(names)) == 0 then return free_keys(q, keys, ended) end
  local has_rules = uses(q, RATES) or uses(q, KEY_LIMITS) or call('ZCARD', q.holds) > 0
  if has_rules then
    for i, key in ipairs(keys) do
      if call('EXISTS', names[i]) == 1 then
        free_one_by_one(q, key, ended[key], now)
      else
        together[#together + 1] = key
      end
    end
    return free_keys(q, together, ended)
  end
  local waiting, more = read_waiting(q, keys, ended)
  for _, key in ipairs(keys) do
    if waiting[key] then
      together[#together + 1] = key
    else
      free_one_by_one(q, key, ended[key], now)
    end
  end
  free_keys(q, together, ended)
  wake_waiting(q, together, ended, waiting, more)
end

-- Each item is a handle and its key. `tokens` as in settle_forgotten.
local function settle_keyed(q, tokens, from, n, verdict, now)
  local args, ids, gone, handles, marked, stale, i = ARGV, {}, {}, {}, {}, {}, 0
  local keys, ended = {}, {}
  for at = 1, n do ids[at] = args[from + at * 2 - 2]:sub(ID_AT) end
  local lives = call('HMGET', q.live, unpack(ids))
  local read = by_tail(function(r) return not r.asked and { extras = r.extras } end)
  while i < n do
    local token, last = args[tokens], i + args[tokens + 1]
    for at = i + 1, last do
      local live, id, found, state, its_token = lives[at], ids[at], nil, nil, nil
      if live and not is_batch(live) then found, state, its_token = read(live) end
      if found and state == State.RUNNING and plain(its_token) == token then
        local handle, key = args[from + at * 2 - 2], args[from + at * 2 - 1]
        gone[#gone + 1], handles[#handles + 1] = id, handle
        if found.extras then marked[#marked + 1] = id end
        if not ended[key] then keys[#keys + 1], ended[key] = key, {} end
        table.insert(ended[key], handle)
      elseif not settle_one(q, id, token, cmsgpack.unpack(verdict), '', now) then
        stale[#stale + 1] = at
      end
    end
    i, tokens = last, tokens + 2
  end
  if #gone == 0 then return stale end
  if #marked > 0 then delete_extras(q, marked) end
  call('HDEL', q.jobs, unpack(gone))
  delete_later('HDEL', q.live, gone)
  delete_later('ZREM', q.lease, handles)
  if has_id_index(q) then call('ZREM', q.ids, unpack(gone)) end
  free_and_wake(q, keys, ended, now)
  if uses(q, LIMITED) then topics[q.name] = true end
  return stale
end
