-- Settling claims one by one.

-- include moment

-- A job goes back to the queue, or is blocked, as the verdict says or as was asked meanwhile.
-- `signal` is the name of the once value that the job waits for, if it waits for a signal.
local function put_back(q, r, state, wait, at, now, signal)
  remove_from_indexes(q, r)
  if r.asked then
    r.due = r.asked_due
  elseif signal and call('HEXISTS', q.once_values .. r.id, signal) == 1 then
    r.due = now
  elseif wait then
    r.due = moment(wait, at, now)
  end
  r.worker, r.asked, r.asked_due, r.asked_keep = false, false, false, false
  r.blocked_at = state == State.BLOCKED and keys_of(r)[1] or false
  r.state = state == State.BLOCKED and not r.blocked_at and State.QUEUED or state
  topics[q.name] = true
  add_to_indexes(q, r)
  save(q, r)
end

-- A run with this key has ended: wake the next job. If the jobs that wait there wait for a token
-- that comes later, nothing is to be done, and nothing is read. `wakes` knows when it comes, unless
-- this script has changed the rate.
local function wake_next(q, key, now)
  if q.flow ~= '' and uses(q, RATES) and not (q.changed_levels and q.changed_levels[key]) then
    local at = call('ZSCORE', q.wakes, key)
    if at and tonumber(at) > now then return end
  end
  wake(q, key, now, 1)
end

-- Any job. What was asked while it ran comes first (`rules.asked`). The values of the verdict are
-- in the order of `codec.pack_verdict`. Returns false for a stale token.
local function settle_one(q, id, token, verdict, result, now)
  local r = load(q, id)
  if not has_token(r, token) then return false end
  local state, wait, at, counts, error, keep, hold_wait, hold_at, stranded, kind, text, failure,
    named, unstarted, signal, told, group = unpack(verdict, 1, 17)
  local asked_state = r.asked and STATE_AFTER[r.asked]
  r.asked = asked_state and r.asked or false -- what cannot be read was not asked
  if kind == TimelineKind.NONE and r.asked then kind = state end
  if told then asked_state, r.asked = false, false end -- what was asked comes too late
  if kind ~= TimelineKind.NONE then note(q, r, now, kind, text, named or r.worker, failure) end
  r.stranded = stranded and (r.stranded or now) or false
  if counts then r[counts] = r[counts] + 1 end
  if error then keep_text(q, r, 'error', error) end
  local state_after = asked_state or state
  if unstarted then gates().give_back(q, r, now) end
  if ENDED[state_after] then
    if r.asked then
      keep = r.asked_keep
    elseif state == State.SUCCEEDED and result ~= '' then
      keep_text(q, r, 'result', result:sub(2))
    end
    r.group = state_after == State.FAILED and group or false
    finish(q, r, state_after, keep, now)
  else
    put_back(q, r, state_after, wait, at, now, signal)
  end
  local first = r.resource or (r.gates and r.gates[1][1])
  if first and hold_wait then
    hold(q, first, moment(hold_wait, hold_at, now), now)
  elseif first then
    wake_next(q, first, now)
  end
  if r.gates then
    for i, key in ipairs(keys_of(r)) do
      if i > 1 then wake_next(q, key, now) end
    end
  end
  if q.flow ~= '' and uses(q, LIMITED) then topics[q.name] = true end
  return true
end

-- Any jobs, one by one; each item is id, token, verdict, and '+' and the result, or ''.
local function settle_each(q, from, n, now)
  local stale = {}
  for i = 1, n do
    local at = from + i * 4 - 4
    local verdict = cmsgpack.unpack(ARGV[at + 2])
    if not settle_one(q, ARGV[at], ARGV[at + 1], verdict, ARGV[at + 3], now) then
      stale[#stale + 1] = i
    end
  end
  return stale
end
