-- Resource keys: who may run, who waits, who is woken.

local HOUR = 3600000

local busy = {} -- {queue, id, task, whether it ended} of the jobs that found their key taken

local function on_hold(q, key, now)
  local ends = call('ZSCORE', q.holds, key)
  return ends and tonumber(ends) > now
end

local function may_run(q, r, now)
  return not on_hold(q, r.resource, now) and call('SCARD', q.holders .. r.resource) < r.limit
end

-- The first in the line of a key. Whoever cannot be read, or is not there, leaves the line.
local function first_waiting(q, key, now)
  local waiting = q.waiting .. key
  while true do
    local handle = call('ZRANGE', waiting, 0, 0)[1]
    if not handle then
      call('SREM', q.waited, key)
      return nil
    end
    local r = load_handle(q, handle)
    if r and not r.unreadable and r.state == 'blocked' then return r end
    call('ZREM', waiting, handle)
    call('ZREM', q.blocked, handle)
    if r and r.unreadable then set_aside(q, r, handle, now) end
  end
end

-- The first who wait for a key go back to the queue, as many as may run by what the first of them allows.
local function wake(q, key, now, most)
  if on_hold(q, key, now) then return end
  local waiting, first = q.waiting .. key, first_waiting(q, key, now)
  if not first then return end
  local room = math.min(first.limit - call('SCARD', q.holders .. key), most)
  if room <= 0 then return end
  for _, handle in ipairs(call('ZRANGE', waiting, 0, room - 1)) do
    local r = load_handle(q, handle)
    if r and not r.unreadable and r.state == 'blocked' then
      leave(q, r)
      r.state = 'queued'
      stand(q, r)
      save(q, r)
    end
  end
end

local function hold(q, key, ends, now)
  rung[q.name] = true -- whoever sleeps until the end of an earlier hold must look again
  if ends > now then
    call('ZADD', q.holds, ends, key)
  else
    call('ZREM', q.holds, key)
    wake(q, key, now, MOST)
  end
end

local function end_holds(q, now)
  local over = call('ZRANGEBYSCORE', q.holds, '-inf', now, 'LIMIT', 0, MOST)
  if #over > 0 and not q.sound then sound_lines(sound(q)) end
  for _, key in ipairs(over) do
    call('ZREM', q.holds, key)
    wake(q, key, now, MOST)
  end
end

-- A job that found its key taken and has left the line: what it wished for that case.
local function turn_away(q, r, now)
  local why = r.resource .. ' is taken'
  r.busy = r.busy + 1
  r.nowhere = true
  busy[#busy + 1] = { q.name, r.id, r.task, r.when_busy == 'skip' and 1 or 0 }
  if r.when_busy == 'skip' then
    note(q, r, now, 'skipped', why)
    return finish(q, r, 'cancelled', HOUR, now)
  end
  if r.when_busy == 'replace' then
    for _, handle in ipairs(call('ZRANGE', q.waiting .. r.resource, 0, -1)) do
      local older = load_handle(q, handle)
      if older and older.unreadable then
        call('ZREM', q.waiting .. r.resource, handle)
        set_aside(q, older, handle, now)
      elseif older then
        note(q, older, now, 'replaced', 'by ' .. r.id)
        finish(q, older, 'cancelled', HOUR, now)
      end
    end
  end
  note(q, r, now, 'blocked', why)
  r.state = 'blocked'
  stand(q, r)
  save(q, r)
end
