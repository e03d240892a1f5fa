-- Handing due jobs over.
--
-- `t` is the turn: now, lease (until when, as text: numbers are slow to hand to a command), worker, left (how many are still wanted), looked (how many were met) and the answer
-- so far: fixed (records), touched (position, live half and progress of those that are not on their first run).

local function run(q, t, r)
  r.state, r.token, r.worker, r.started = 'running', r.token + 1, t.worker, t.now
  if r.resource then
    call('SADD', q.holders .. r.resource, r.handle)
    call('SADD', q.held, r.resource)
  end
  local live = pack_live(r)
  t.touched[#t.touched + 1] = { #t.fixed, live, r.extras and call('HGET', q.progress, r.id) or false }
  return live
end

-- These are the first of their line, and none of them stays in it.
local function hand_over(q, t, priority, handles)
  local ids = {}
  for i = 1, #handles do ids[i] = handles[i]:sub(10) end
  local fixed = call('HMGET', q.jobs, unpack(ids))
  local lives = call('HMGET', q.live, unpack(ids))
  call('ZREMRANGEBYRANK', q.due[priority], 0, #handles - 1)
  local writes, leases, n = {}, {}, 0
  for i = 1, #handles do
    local live = t.first -- the same for every first run of this turn
    local taken = fixed[i]
    if taken and (lives[i] or has_resource(handles[i])) then
      local r = as_record(ids[i], fixed[i], lives[i])
      taken = not r.resource or may_run(q, r, t.now)
      if taken then
        t.fixed[#t.fixed + 1] = fixed[i]
        live = run(q, t, r)
      else
        turn_away(q, r, t.now)
      end
    elseif taken then
      t.fixed[#t.fixed + 1] = fixed[i]
    end
    if taken then
      n = n + 2
      writes[n - 1], writes[n] = ids[i], live
      leases[n - 1], leases[n] = t.lease, handles[i]
    end
  end
  if n > 0 then
    call('HSET', q.live, unpack(writes))
    call('ZADD', q.lease, unpack(leases))
    t.left = t.left - n / 2
  end
end

local function claim(q, t)
  for priority = 9, 0, -1 do
    local more = true
    while more and t.left > 0 and t.looked < MOST do
      local n = math.min(t.left, MOST - t.looked)
      local handles = call('ZRANGEBYSCORE', q.due[priority], '-inf', t.now, 'LIMIT', 0, n)
      t.looked = t.looked + #handles
      if #handles > 0 then hand_over(q, t, priority, handles) end
      more = #handles == n
    end
  end
end

-- When there may be more: the next due job, or the end of a hold that somebody waits for.
local function next_moment(q)
  local soonest
  for priority = 0, 9 do
    local first = call('ZRANGE', q.due[priority], 0, 0, 'WITHSCORES')
    if first[2] then soonest = math.min(soonest or math.huge, tonumber(first[2])) end
  end
  local holds = call('ZRANGE', q.holds, 0, MOST - 1, 'WITHSCORES')
  for i = 1, #holds, 2 do
    if call('EXISTS', q.waiting .. holds[i]) == 1 then
      return math.min(soonest or math.huge, tonumber(holds[i + 1]))
    end
  end
  return soonest
end
