-- Handing due jobs over.
--
-- `t` is the turn: now, moment and lease (now and until when, as text: numbers are slow to hand to a command; the moment is
-- the token of every first run), worker, limit, left (how many are still wanted), looked (how many were met), first (the live
-- half of every first run) and the answer so far: fixed (halves), touched (position, live half and progress of those that
-- are not on their first run).

local function run(q, t, r)
  r.state, r.token, r.worker, r.started = 'running', next_token(r.token, t.now), t.worker, t.now
  if r.resource then
    call('SADD', q.holders .. r.resource, r.handle)
    call('SADD', q.held, r.resource)
  end
  local live = pack_live(r)
  t.touched[#t.touched + 1] = { #t.fixed + 1, live, r.extras and call('HGET', q.progress, r.id) or false }
  return live
end

-- When the first of a sorted half is due; never, if it is empty.
local function first_due(q, priority)
  return tonumber(call('ZRANGE', due_of(q, priority), '0', '0', 'WITHSCORES')[2] or math.huge)
end

-- Eight bytes as a number; 0 where there are not so many.
local function number_at(text, place) return #text >= place + 7 and struct.unpack('>I8', text, place) or 0 end

-- The first n of both halves of a line, in their order. Gives them, how many are of the list and which those are (nil: all
-- or none), how many are of the sorted set, and the fixed halves if they had to be read.
local function first_in_line(q, t, priority, n)
  local listed = call('LRANGE', ready_of(q, priority), '0', n - 1)
  if q.later[priority] > t.now then return listed, #listed, nil, 0 end
  if #listed == 0 then
    local handles = call('ZRANGEBYSCORE', due_of(q, priority), '-inf', t.moment, 'LIMIT', '0', n)
    return handles, 0, nil, #handles
  end
  local sorted = call('ZRANGEBYSCORE', due_of(q, priority), '-inf', t.moment, 'WITHSCORES', 'LIMIT', '0', n)
  local ids = {}
  for i, handle in ipairs(listed) do ids[i] = handle:sub(10) end
  local fixed = call('HMGET', q.jobs, unpack(ids))
  local handles, of_list, a, b, age = {}, {}, 0, 0, number_at
  while #handles < n and (listed[a + 1] or sorted[b * 2 + 1]) do
    local mine, theirs = listed[a + 1], sorted[b * 2 + 1]
    if mine and theirs and fixed[a + 1] then
      local due, other = age(fixed[a + 1], 12), tonumber(sorted[b * 2 + 2])
      if due > other or (due == other and age(mine, 1) > age(theirs, 1)) then mine = nil end
    end
    if mine then a = a + 1 else b = b + 1 end
    handles[#handles + 1], of_list[#handles + 1] = mine or theirs, mine and true or false
  end
  return handles, a, of_list, b
end

local function next_batch(q)
  local number = redis.pcall('HINCRBY', q.meta, 'batch', 1)
  if type(number) == 'number' then return number end
  number = microseconds() -- what was there cannot be read: a number that was not given out before
  call('HSET', q.meta, 'batch', plain(number))
  return plain(number)
end

-- Jobs on their first run, without a key: one batch with one lease, if they are enough for that.
local function start_first(q, t, ids, handles)
  local n, writes, live = #ids, {}, t.first
  if n == 0 then return end
  local batch = n >= SMALLEST_BATCH and 'r' .. t.moment .. ':' .. next_batch(q)
  if batch then
    call('HSET', q.runs, batch, live, '+' .. batch, cmsgpack.pack(ids))
    call('HSET', q.left, batch, n)
    call('ZADD', q.lease, t.lease, batch)
    live = batch
  end
  for i = 1, n do writes[i * 2 - 1], writes[i * 2] = ids[i], live end
  call('HSET', q.live, unpack(writes))
  if batch then return end
  for i = 1, n do writes[i * 2 - 1], writes[i * 2] = t.lease, handles[i] end
  call('ZADD', q.lease, unpack(writes))
end

-- A list may hold what is not there any more, or not there: such a job was touched, or is another one of the same id.
local function is_gone(handle, fixed, live) return not fixed or live or handle_in(fixed) ~= handle end

local function skip_gone(q, priority, n)
  if call('HINCRBY', q.meta, 'gone:' .. priority, -n) <= 0 then call('HDEL', q.meta, 'gone:' .. priority) end
end

-- The first of a line, and none of them stays in it. Gives how many there were.
local function hand_over(q, t, priority, n)
  local handles, a, of_list, b = first_in_line(q, t, priority, n)
  local ids, many, keyed, sub, byte = {}, #handles, false, string.sub, string.byte
  if many == 0 then return 0 end
  for i = 1, many do
    local handle = handles[i]
    ids[i] = sub(handle, 10)
    keyed = keyed or (byte(handle, 9) or 0) % 2 == 1
  end
  call('ZCARD', q.lease) -- a key of another type must be found before the first write
  if many >= SMALLEST_BATCH then
    call('HLEN', q.runs)
    call('HLEN', q.left)
  end
  if keyed and not q.sound then sound(q) end
  local fixed = call('HMGET', q.jobs, unpack(ids))
  local missing = a > 0 and tonumber(call('HGET', q.meta, 'gone:' .. priority) or 0) or 0
  local lives = (b > 0 or missing > 0) and call('HMGET', q.live, unpack(ids)) or call('HLEN', q.live) and {}
  if a > 0 then call('LTRIM', ready_of(q, priority), a, '-1') end
  if b > 0 then
    call('ZREMRANGEBYRANK', due_of(q, priority), '0', b - 1)
    q.later[priority] = first_due(q, priority)
  end
  local given, before, firsts, places, gone = t.fixed, #t.fixed, {}, {}, 0
  local own, leases, m = {}, {}, 0
  for i = 1, many do
    local id, half, live, handle = ids[i], fixed[i], lives[i], handles[i]
    if missing > 0 and (b == 0 or of_list[i]) and is_gone(handle, half, live) then
      gone = gone + 1
    elseif half and (live or byte(handle, 9) % 2 == 1) then
      local r = as_record(q, id, half, live)
      if r.unreadable then
        set_aside(q, r, handle, t.now)
      elseif not r.resource or may_run(q, r, t.now) then
        live = run(q, t, r)
        given[#given + 1] = half
        m = m + 2
        own[m - 1], own[m] = id, live
        leases[m - 1], leases[m] = t.lease, handle
      else
        turn_away(q, r, t.now)
      end
    elseif half then
      given[#given + 1] = half
      firsts[#firsts + 1], places[#places + 1] = id, handle
    end
  end
  start_first(q, t, firsts, places)
  if m > 0 then
    call('HSET', q.live, unpack(own))
    call('ZADD', q.lease, unpack(leases))
  end
  if gone > 0 then skip_gone(q, priority, gone) end
  t.left = t.left - (#given - before)
  return many
end

-- The lines of a queue that were ever used, and when the first of each sorted half is due.
local function look_at_lines(q)
  q.heads, q.later = {}, {}
  for digit in lines(q):gmatch('%d') do q.later[tonumber(digit)] = first_due(q, digit) end
end

-- What can be had of each line, and when the first of the rest is due: what is in a list is due.
local function claim(q, t)
  for priority = 9, 0, -1 do
    local dry = not q.later[priority]
    while not dry and t.left > 0 and t.looked < MOST do
      local n = math.min(t.left, MOST - t.looked)
      local met = hand_over(q, t, priority, n)
      t.looked = t.looked + met
      dry = met < n
    end
    q.heads[priority] = q.later[priority]
    local asked = t.left > 0 or t.limit == 0 -- who got all he wanted comes again anyway
    if not dry and asked and call('LLEN', ready_of(q, priority)) > 0 then q.heads[priority] = 0 end
  end
end

-- When there may be more: the next due job, or the end of a hold that somebody waits for.
local function next_moment(q)
  local soonest = math.huge
  for _, due in pairs(q.heads) do soonest = math.min(soonest, due) end
  local holds = q.has_holds and call('ZRANGE', q.holds, 0, MOST - 1, 'WITHSCORES') or {}
  for i = 1, #holds, 2 do
    if call('EXISTS', q.waiting .. holds[i]) == 1 then return math.min(soonest, tonumber(holds[i + 1])) end
  end
  return soonest < math.huge and soonest or nil
end
