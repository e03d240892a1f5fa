-- Keys: which jobs may start, which wait, which are woken. A job has a resource key, further gates
-- (see gates), or both.

-- include state_indexes
-- include timeline
-- include gates

-- {queue, id, task, whether it ended, whether it only lacks a token} of the jobs that could not
-- pass a gate
local busy = {}

local function on_hold(q, key, now)
  local ends = call('ZSCORE', q.holds, key)
  return ends and tonumber(ends) > now
end

-- The first gate that a job cannot pass now, and whether it only lacks a token; nil if the job may
-- start. A job with one key, in a queue where no operator has limited a key, needs two commands.
local function closed_gate(q, r, now)
  if r.gates or (q.flow ~= '' and uses(q, KEY_LIMITS)) then return gates().closed(q, r, now) end
  if not r.resource then return nil end
  if on_hold(q, r.resource, now) or call('SCARD', q.holders .. r.resource) >= r.limit then
    return { key = r.resource }
  end
end

local function take_key(q, r, key)
  call('SADD', q.holders .. key, r.handle)
  if q.holder_counts then q.holder_counts[key] = nil end
  call('SADD', q.held, key)
  if q.flow ~= '' then touch_key(q, key) end
end

-- A job that has passed all of its gates takes its keys.
local function take_keys(q, r, now)
  if r.gates then
    for _, key in ipairs(keys_of(r)) do take_key(q, r, key) end
  else
    take_key(q, r, r.resource)
  end
  if r.gates or (q.flow ~= '' and uses(q, KEY_LIMITS)) then gates().take_tokens(q, r, now) end
end

-- The first job that waits at a key. Jobs that cannot be read or do not wait are taken out.
local function first_waiting(q, key, now)
  local waiting = q.waiting .. key
  while true do
    local handle = call('ZRANGE', waiting, 0, 0)[1]
    if not handle then
      call('SREM', q.waited, key)
      return nil
    end
    local r = load_handle(q, handle)
    local waits = r and not r.unreadable and r.state == State.BLOCKED
    if waits and r.blocked_at == key then return r end
    call('ZREM', waiting, handle)
    if not waits then call('ZREM', q.blocked, handle) end
    if r and r.unreadable then set_aside(q, r, handle, now) end
  end
end

-- Put the first jobs that wait at a key back into the queue: as many as may start by the gate of
-- the first one, and at most `most`.
local function wake(q, key, now, most)
  if q.flow ~= '' then touch_key(q, key) end
  if on_hold(q, key, now) then return end
  local first = first_waiting(q, key, now)
  if not first then return end
  local many
  if first.gates or (q.flow ~= '' and uses(q, KEY_LIMITS)) then
    many = gates().start_waking(q, key, first, now, most)
  else
    many = math.min(first.limit - call('SCARD', q.holders .. key), most)
  end
  if many <= 0 then return end
  for i, handle in ipairs(call('ZRANGE', q.waiting .. key, 0, many - 1)) do
    local r = i == 1 and first or load_handle(q, handle)
    if r and not r.unreadable and r.state == State.BLOCKED and r.blocked_at == key then
      move(q, r, State.QUEUED, r.due)
    end
  end
end

local function hold(q, key, ends, now)
  topics[q.name] = true -- a worker that sleeps until the end of an earlier hold must look again
  if q.flow ~= '' then touch_key(q, key) end
  if ends > now then
    call('ZADD', q.holds, ends, key)
  else
    call('ZREM', q.holds, key)
    wake(q, key, now, CALL_ITEMS)
  end
end

local function end_holds(q, now)
  local over = call('ZRANGEBYSCORE', q.holds, '-inf', now, 'LIMIT', 0, CALL_ITEMS)
  if #over > 0 and not q.types_checked then check_used_types(q) end
  for _, key in ipairs(over) do
    call('ZREM', q.holds, key)
    wake(q, key, now, CALL_ITEMS)
  end
end

-- Wake the jobs whose rate has tokens again. Keys whose time has not come cost nothing.
local function open_rates(q, now)
  local keys = call('ZRANGEBYSCORE', q.wakes, '-inf', now, 'LIMIT', 0, WOKEN_KEYS)
  if #keys > 0 and not q.types_checked then check_used_types(q) end
  for _, key in ipairs(keys) do wake(q, key, now, CALL_ITEMS) end
end

-- End the other jobs that wait at the key where this one has to wait.
local function replace_waiting(q, r, key, now)
  for _, handle in ipairs(call('ZRANGE', q.waiting .. key, 0, -1)) do
    local older = load_handle(q, handle)
    if older and older.unreadable then
      call('ZREM', q.waiting .. key, handle)
      set_aside(q, older, handle, now)
    elseif older then
      note(q, older, now, TimelineKind.REPLACED, REPLACED_NOTE .. r.id)
      finish(q, older, State.CANCELLED, BUSY_RETENTION_MS, now)
      busy[#busy + 1] = { q.name, older.id, older.task, 1, 0, 1 }
    end
  end
end

-- A due job could not pass a gate, and is in no index: what its busy policy says (`rules.busy`). At
-- a rate without a token it always waits.
local function apply_busy_policy(q, r, gate, lacks_token, now)
  local policies = BUSY_POLICIES
  local policy = policies[r.when_busy] or policies[WhenBusy.WAIT]
  if lacks_token then policy = RATE_POLICY end
  r.busy = r.busy + 1
  r.in_no_index = true
  busy[#busy + 1] = { q.name, r.id, r.task, policy.ends and 1 or 0, lacks_token and 1 or 0, 0 }
  if gate.interval and gate.interval > 0 then gates().keep_level(q, gate) end
  if policy.replaces then replace_waiting(q, r, gate.key, now) end
  note(q, r, now, policy.line, gate.key .. (lacks_token and RATE_NOTE or BUSY_NOTE))
  if policy.ends then return finish(q, r, policy.state, BUSY_RETENTION_MS, now) end
  r.blocked_at = gate.key
  move(q, r, policy.state, r.due)
end
