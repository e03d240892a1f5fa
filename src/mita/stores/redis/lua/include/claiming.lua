-- Handing due jobs over.
--
-- `t` is the turn: now, lease (until when, as text: numbers are slow to hand to a command), worker, left (how many are still
-- wanted), looked (how many were met), first (the live half of every first run) and the answer so far: fixed (halves),
-- touched (position, live half and progress of those that are not on their first run).

local function run(q, t, r)
  r.state, r.token, r.worker, r.started = 'running', r.token + 1, t.worker, t.now
  if r.resource then
    call('SADD', q.holders .. r.resource, r.handle)
    call('SADD', q.held, r.resource)
  end
  local live = pack_live(r)
  t.touched[#t.touched + 1] = { #t.fixed + 1, live, r.extras and call('HGET', q.progress, r.id) or false }
  return live
end

-- These are the first of their line, and none of them stays in it.
local function hand_over(q, t, priority, handles)
  local ids, many, keyed, sub, byte = {}, #handles, false, string.sub, string.byte
  for i = 1, many do
    ids[i] = sub(handles[i], 10)
    keyed = keyed or byte(handles[i], 9) % 2 == 1
  end
  call('ZCARD', q.lease) -- a key of another type must be found before the first write
  if keyed and not q.sound then sound(q) end
  local fixed = call('HMGET', q.jobs, unpack(ids))
  local lives = call('HMGET', q.live, unpack(ids))
  call('ZREMRANGEBYRANK', q.due[priority], 0, many - 1)
  local given, first, lease, writes, leases, n = t.fixed, t.first, t.lease, {}, {}, 0
  for i = 1, many do
    local live, handle = first, handles[i]
    local taken = fixed[i]
    if taken then
      if lives[i] or byte(handle, 9) % 2 == 1 then
        local r = as_record(ids[i], fixed[i], lives[i])
        taken = not r.resource or may_run(q, r, t.now)
        if taken then
          live = run(q, t, r)
        else
          turn_away(q, r, t.now)
        end
      end
    end
    if taken then
      given[#given + 1] = fixed[i]
      n = n + 2
      writes[n - 1], writes[n] = ids[i], live
      leases[n - 1], leases[n] = lease, handle
    end
  end
  if n > 0 then
    call('HSET', q.live, unpack(writes))
    call('ZADD', q.lease, unpack(leases))
    t.left = t.left - n / 2
  end
end

-- When the first of a line is due; nil for an empty line.
local function head(q, priority)
  local first = call('ZRANGE', q.due[priority], 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2])
end

-- The lines of a queue that are not empty, and when the first of each is due.
local function look_at_lines(q)
  q.heads = {}
  for digit in lines(q):gmatch('%d') do q.heads[tonumber(digit)] = head(q, digit) end
end

local function claim(q, t)
  for priority = 9, 0, -1 do
    local more = q.heads[priority] and q.heads[priority] <= t.now
    while more and t.left > 0 and t.looked < MOST do
      local n = math.min(t.left, MOST - t.looked)
      local handles = call('ZRANGEBYSCORE', q.due[priority], '-inf', t.now, 'LIMIT', 0, n)
      t.looked = t.looked + #handles
      if #handles > 0 then hand_over(q, t, priority, handles) end
      more = #handles == n
    end
    if q.heads[priority] and t.left > 0 then q.heads[priority] = head(q, priority) end
  end
end

-- When there may be more: the next due job, or the end of a hold that somebody waits for.
local function next_moment(q)
  local soonest = math.huge
  for _, due in pairs(q.heads) do soonest = math.min(soonest, due) end
  local holds = call('ZRANGE', q.holds, 0, MOST - 1, 'WITHSCORES')
  for i = 1, #holds, 2 do
    if call('EXISTS', q.waiting .. holds[i]) == 1 then return math.min(soonest, tonumber(holds[i + 1])) end
  end
  return soonest < math.huge and soonest or nil
end
