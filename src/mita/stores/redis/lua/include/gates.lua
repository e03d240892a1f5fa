-- Gates: the conditions under which a job may start. The numbers follow `rules.gates`, and a test
-- compares the two.
--
-- A gate is { key, limit (false: any number), interval (0: no rate), burst }. The use of a key is
-- { holders, held_until, tat, woken }. Times of a rate are microseconds.
--
-- The server makes the functions of a script anew at every call. Most calls need none of these, so
-- `gates()` makes them when it is first called.

-- include flow_changes

local made_gates
local function gates()
  if made_gates then return made_gates end
  local g, floor, min, max = {}, math.floor, math.min, math.max
  local late_by_start = {} -- what `returned` has not counted yet
  made_gates = g

  -- the numbers

  function g.tokens(gate, level, now)
    local ahead = max(level - now * ONE_MS_US, 0)
    return max(0, gate.burst + floor(-ahead / gate.interval))
  end

  function g.bounded_level(gate, level, now)
    return min(level, now * ONE_MS_US + gate.burst * gate.interval)
  end

  function g.after_starts(gate, level, now, starts)
    if gate.interval == 0 or starts == 0 then return level end
    return max(level, now * ONE_MS_US) + starts * gate.interval
  end

  -- By how much a start that did not happen moves the number of a rate back
  -- (`rules.gates.ReturnedTokens`). `which` names the rate.
  function g.returned(rate, which, claimed, now)
    which = which .. ' ' .. plain(claimed)
    local late = late_by_start[which] or max(0, now - claimed) * ONE_MS_US
    late_by_start[which] = max(0, late - rate.interval)
    return max(0, rate.interval - late)
  end

  function g.given_back(level, returned) return max(0, level - returned) end

  function g.next_token_at(gate, level, now)
    local wait = level - now * ONE_MS_US - (gate.burst - 1) * gate.interval
    return now + max(0, -floor(-wait / ONE_MS_US))
  end

  function g.is_free(gate, use, now)
    return use.held_until <= now and (not gate.limit or use.holders < gate.limit)
  end

  function g.is_open(gate, use, now)
    if not g.is_free(gate, use, now) then return false end
    return gate.interval == 0 or g.tokens(gate, use.tat, now) > 0
  end

  function g.to_wake(gate, use, now)
    if use.held_until > now then return 0 end
    local free = gate.limit and max(0, gate.limit - use.holders) or MOST_HOLDERS
    if gate.interval == 0 then return free end
    return min(free, g.tokens(gate, max(use.tat, use.woken), now))
  end

  function g.next_wake_at(gate, use, now)
    if gate.interval == 0 then return use.held_until end
    return max(use.held_until, g.next_token_at(gate, max(use.tat, use.woken), now))
  end

  function g.places(limit, running, tat, now)
    local free = limit.limit and max(0, limit.limit - running) or MOST_HOLDERS
    if limit.interval == 0 then return free end
    return min(free, g.tokens(limit, tat, now))
  end

  -- what is stored

  local function numbers(packed, n)
    local ok, t = pcall(cmsgpack.unpack, packed or '')
    if not ok or type(t) ~= 'table' then return nil end
    for i = 1, n do
      if not is_number(t[i]) then return nil end
    end
    return t
  end

  -- A limit that an operator has set; nil without one, or if it cannot be read.
  function g.read_limit(packed)
    local ok, t = pcall(cmsgpack.unpack, packed or '')
    if not ok or type(t) ~= 'table' then return nil end
    local limit, interval, burst = t[1] or false, t[2] or 0, t[3] or 1
    if limit and (not is_number(limit) or limit > MOST_HOLDERS) then return nil end
    if not is_number(interval) or interval > LONGEST_INTERVAL_US then return nil end
    if not is_number(burst) or burst < 1 or burst > MOST_HOLDERS then return nil end
    return { limit = limit, interval = interval, burst = burst }
  end

  -- The two numbers of a key's rate, and the rate of the latest start: { tat, woken, interval,
  -- burst }. nil if nothing is stored, or if it cannot be read.
  function g.level(q, key)
    q.levels = q.levels or {}
    if q.levels[key] == nil then
      q.levels[key] = numbers(call('HGET', q.rates, key), 4) or false
    end
    return q.levels[key] or nil
  end

  function g.set_level(q, gate, tat, woken)
    q.levels = q.levels or {}
    q.levels[gate.key] = { tat, woken, gate.interval, gate.burst }
    call('HSET', q.rates, gate.key, cmsgpack.pack(q.levels[gate.key]))
    q.changed_levels = q.changed_levels or {}
    q.changed_levels[gate.key] = true
    set_use(q, RATES, true)
    touch_key(q, gate.key)
  end

  -- A job has to wait at this gate: its rate is stored, and shown from now on.
  function g.keep_level(q, gate)
    local level = g.level(q, gate.key) or { 0, 0 }
    if level[3] ~= gate.interval or level[4] ~= gate.burst then
      g.set_level(q, gate, level[1], level[2])
    end
  end

  local function effective(q, gate)
    local stored = uses(q, KEY_LIMITS) and g.read_limit(call('HGET', q.limits, gate.key))
    if not stored then return gate end
    if stored.limit then gate.limit = stored.limit end
    if stored.interval > 0 then gate.interval, gate.burst = stored.interval, stored.burst end
    return gate
  end

  -- The gates of a job as they are in force, in the order in which they are tried. A key that is
  -- named twice is one gate with both conditions.
  function g.gates_of(q, r)
    if r.all_gates then return r.all_gates end
    local all, by_key = {}, {}
    local function add(key, limit, interval, burst)
      local known = by_key[key]
      if not known then
        known = { key = key, limit = limit or false, interval = interval, burst = burst }
        by_key[key], all[#all + 1] = known, known
        return
      end
      if limit then known.limit = known.limit and min(known.limit, limit) or limit end
      if known.interval == 0 then known.interval, known.burst = interval, burst end
    end
    if r.resource then add(r.resource, r.limit, 0, 1) end
    for _, gate in ipairs(r.gates or {}) do add(gate[1], gate[2], gate[3], gate[4]) end
    for i, gate in ipairs(all) do all[i] = effective(q, gate) end
    r.all_gates = all
    return all
  end

  -- The use of a gate's key, with the numbers of its rate brought back (see `rules.gates`).
  function g.use_of(q, gate, now)
    local use = { tat = 0, woken = 0 }
    use.held_until = tonumber(call('ZSCORE', q.holds, gate.key) or 0)
    use.holders = gate.limit and call('SCARD', q.holders .. gate.key) or 0
    local level = gate.interval > 0 and g.level(q, gate.key)
    if level then
      use.tat = g.bounded_level(gate, level[1], now)
      use.woken = g.bounded_level(gate, level[2], now)
      if use.tat ~= level[1] or use.woken ~= level[2] then
        g.set_level(q, gate, use.tat, use.woken)
      end
    end
    return use
  end

  -- jobs

  -- The first gate that a job cannot pass now, and whether it only lacks a token; nil if the job
  -- may start.
  function g.closed(q, r, now)
    for _, gate in ipairs(g.gates_of(q, r)) do
      local use = g.use_of(q, gate, now)
      if not g.is_open(gate, use, now) then return gate, g.is_free(gate, use, now) end
    end
    return nil
  end

  -- A job starts: take a token of each rate.
  function g.take_tokens(q, r, now)
    for _, gate in ipairs(g.gates_of(q, r)) do
      if gate.interval > 0 then
        local level = g.level(q, gate.key) or { 0, 0 }
        local tat = g.after_starts(gate, level[1], now, 1)
        g.set_level(q, gate, tat, max(level[2], tat))
      end
    end
  end

  -- A job was not started after all: give its tokens back, also that of its queue.
  function g.give_back(q, r, now)
    local claimed = r.started or now
    for _, gate in ipairs(g.gates_of(q, r)) do
      local level = gate.interval > 0 and g.level(q, gate.key)
      if level then
        local rate = { key = gate.key, interval = level[3], burst = level[4] } -- of the start
        local returned = g.returned(gate, q.waiting .. gate.key, claimed, now)
        g.set_level(q, rate, g.given_back(level[1], returned), g.given_back(level[2], returned))
      end
    end
    local limit, level = g.queue_limit(q)
    if limit and limit.interval > 0 and level then
      local returned = g.returned(limit, q.meta, claimed, now)
      call('HSET', q.meta, 'level', plain(g.given_back(level, returned)))
    end
  end

  -- How many jobs may be woken that wait at this key, by the gate of the first of them. They count
  -- as woken from now on.
  function g.start_waking(q, key, first, now, most)
    local gate = g.gate_at(q, first, key)
    local use = g.use_of(q, gate, now)
    local many = min(g.to_wake(gate, use, now), call('ZCARD', q.waiting .. key), most)
    if gate.interval > 0 then
      g.set_level(q, gate, use.tat, g.after_starts(gate, max(use.tat, use.woken), now, many))
    end
    return many
  end

  -- The gate of a job that has this key.
  function g.gate_at(q, r, key)
    for _, gate in ipairs(g.gates_of(q, r)) do
      if gate.key == key then return gate end
    end
    return { key = key, limit = false, interval = 0, burst = 1 } -- it waits at a key of another job
  end

  -- Enter into `wakes` when the clock may wake the next job that waits at a key with a rate. A key
  -- that has tokens, but no place, is not there: the end of a run wakes its next job. 0 means that
  -- each claim tries: no clock opens the gate of the first job, which has no rate.
  function g.enter_wake(q, key, now)
    local handle = g.level(q, key) and call('ZRANGE', q.waiting .. key, 0, 0)[1]
    local first = handle and load_handle(q, handle)
    if not first then return call('ZREM', q.wakes, key) end
    local gate = g.gate_at(q, first, key)
    local use = g.use_of(q, gate, now)
    local at = g.next_wake_at(gate, use, now)
    local is_full = gate.limit and use.holders >= gate.limit
    if is_full and at <= now then return call('ZREM', q.wakes, key) end
    if gate.interval == 0 and at <= now then at = 0 end
    call('ZADD', q.wakes, at, key)
  end

  -- queues

  -- The limit of a queue, and `tat_us` of its rate; nil if it has none.
  function g.queue_limit(q)
    if not uses(q, LIMITED) then return nil end
    local meta = call('HMGET', q.meta, 'limit', 'level')
    return g.read_limit(meta[1]), is_number(tonumber(meta[2])) and tonumber(meta[2]) or 0
  end

  function g.running(q)
    local running, batches = call('ZCARD', q.lease), call('HVALS', q.left)
    for _, left in ipairs(batches) do running = running + (tonumber(left) or 1) - 1 end
    return running
  end

  -- How many more jobs of a queue may start now; nil: any number.
  function g.places_in(q, now)
    local limit, level = g.queue_limit(q)
    if not limit then return nil end
    return g.places(limit, limit.limit and g.running(q) or 0, level, now)
  end

  -- So many jobs of a limited queue have started.
  function g.count_starts(q, now, starts)
    local limit, level = g.queue_limit(q)
    if starts == 0 or not limit or limit.interval == 0 then return end
    call('HSET', q.meta, 'level', plain(g.after_starts(limit, level, now, starts)))
  end

  -- When a queued job that is due then may start in a limited queue; nil: when a run ends.
  function g.next_start(q, due, now)
    local limit, level = g.queue_limit(q)
    if not limit then return due end
    if limit.limit and g.running(q) >= limit.limit then return due > now and due or nil end
    if limit.interval == 0 then return due end
    return max(due, g.next_token_at(limit, level, now))
  end

  return g
end

-- After the last change of a script: enter the next wake-ups of the keys that were touched.
local function enter_wakes(q, now)
  local keys = q.touched_keys
  if not keys or not uses(q, RATES) then return end
  for key in pairs(keys) do gates().enter_wake(q, key, now) end
  q.touched_keys = false
end
