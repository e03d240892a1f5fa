-- Resource keys: which jobs may run, which wait, which are woken.

-- include state_indexes
-- include timeline

local busy = {} -- {queue, id, task, whether it ended} of the jobs that found their key busy

local function on_hold(q, key, now)
  local ends = call('ZSCORE', q.holds, key)
  return ends and tonumber(ends) > now
end

local function may_run(q, r, now)
  return not on_hold(q, r.resource, now) and call('SCARD', q.holders .. r.resource) < r.limit
end

-- The first job that waits for a key. Jobs that cannot be read or do not wait are taken out.
local function first_waiting(q, key, now)
  local waiting = q.waiting .. key
  while true do
    local handle = call('ZRANGE', waiting, 0, 0)[1]
    if not handle then
      call('SREM', q.waited, key)
      return nil
    end
    local r = load_handle(q, handle)
    if r and not r.unreadable and r.state == State.BLOCKED then return r end
    call('ZREM', waiting, handle)
    call('ZREM', q.blocked, handle)
    if r and r.unreadable then set_aside(q, r, handle, now) end
  end
end

-- Put the first jobs that wait for a key back into the queue: as many as may run by the limit of
-- the first one, and at most `most`.
local function wake(q, key, now, most)
  if on_hold(q, key, now) then return end
  local first = first_waiting(q, key, now)
  if not first then return end
  local free = math.min(first.limit - call('SCARD', q.holders .. key), most)
  if free <= 0 then return end
  for _, handle in ipairs(call('ZRANGE', q.waiting .. key, 0, free - 1)) do
    local r = load_handle(q, handle)
    if r and not r.unreadable and r.state == State.BLOCKED then
      move(q, r, State.QUEUED, r.due)
    end
  end
end

local function hold(q, key, ends, now)
  topics[q.name] = true -- a worker that sleeps until the end of an earlier hold must look again
  if ends > now then
    call('ZADD', q.holds, ends, key)
  else
    call('ZREM', q.holds, key)
    wake(q, key, now, CALL_ITEMS)
  end
end

local function end_holds(q, now)
  local over = call('ZRANGEBYSCORE', q.holds, '-inf', now, 'LIMIT', 0, CALL_ITEMS)
  if #over > 0 and not q.types_checked then check_all_types(q) end
  for _, key in ipairs(over) do
    call('ZREM', q.holds, key)
    wake(q, key, now, CALL_ITEMS)
  end
end

-- End the other jobs that wait for the key of this one.
local function replace_waiting(q, r, now)
  for _, handle in ipairs(call('ZRANGE', q.waiting .. r.resource, 0, -1)) do
    local older = load_handle(q, handle)
    if older and older.unreadable then
      call('ZREM', q.waiting .. r.resource, handle)
      set_aside(q, older, handle, now)
    elseif older then
      note(q, older, now, TimelineKind.REPLACED, REPLACED_NOTE .. r.id)
      finish(q, older, State.CANCELLED, BUSY_RETENTION_MS, now)
    end
  end
end

-- A due job found its key busy, and is in no index: what its busy policy says (`rules.busy`).
local function apply_busy_policy(q, r, now)
  local policies = BUSY_POLICIES
  local policy = policies[r.when_busy] or policies[WhenBusy.WAIT]
  r.busy = r.busy + 1
  r.in_no_index = true
  busy[#busy + 1] = { q.name, r.id, r.task, policy.ends and 1 or 0 }
  if policy.replaces then replace_waiting(q, r, now) end
  note(q, r, now, policy.line, r.resource .. BUSY_NOTE)
  if policy.ends then return finish(q, r, policy.state, BUSY_RETENTION_MS, now) end
  move(q, r, policy.state, r.due)
end
