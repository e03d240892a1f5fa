-- amend: a change that a person asks for, by job id.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 channel for wake-ups
--       3 change: reschedule, cancel, retry, prioritise, delete, signal or rewrite
--       4 delay, keep or priority; the value of a signal; packed arguments (rewrite)
--       5 point in time (reschedule, retry), '' for none
--       6 note (reschedule, retry, cancel, rewrite); the name of a signal
--       then ids
-- Returns an `Answer` for each id
-- include keys
-- include type_checks
-- include record
-- include state_indexes
-- include timeline
-- include moment
-- include gates
local now, q, change = clock(ARGV[1]), check_used_types(queue_of(KEYS[1])), ARGV[3]
local amount, at, why = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local changes = {}
if change == 'prioritise' then check_types_of(q, amount) end

-- A running job is only marked. What was asked takes effect when its run ends.
local function ask(r, asked)
  r.asked = asked
  if asked == Asked.CANCEL then topics[ASKED_TOPIC] = true end
  save(q, r)
  return Answer.ASKED
end

function changes.retry(r)
  if r.unique then
    local holder = unique_holder(q, r.unique, now)
    if holder and holder ~= r.id then return Answer.TAKEN end
    take_unique(q, r.unique, r.id)
  end
  note(q, r, now, TimelineKind.REVIVED, why)
  remove_from_indexes(q, r)
  call('HDEL', q.error, r.id)
  call('HDEL', q.result, r.id)
  for _, counter in ipairs(COUNTERS) do r[counter] = 0 end
  for _, field in ipairs({ 'finished', 'expires', 'stranded', 'worker', 'started', 'group' }) do
    r[field] = false
  end
  r.state, r.due = State.QUEUED, moment(amount, at, now)
  add_to_indexes(q, r)
  save(q, r)
  return Answer.DONE
end

function changes.reschedule(r)
  if REVIVABLE[r.state] then return changes.retry(r) end
  local may_ask = MAY_ASK[r.asked]
  if may_ask and not may_ask[Asked.RESCHEDULE] then return Answer.TOO_LATE end
  note(q, r, now, TimelineKind.RESCHEDULED, why)
  r.reschedules = r.reschedules + 1
  local due = moment(amount, at, now)
  if r.state == State.RUNNING then
    r.asked_due = due
    return ask(r, Asked.RESCHEDULE)
  end
  move(q, r, State.QUEUED, due)
  return Answer.DONE
end

function changes.cancel(r)
  note(q, r, now, TimelineKind.CANCELLED, why)
  if r.state == State.RUNNING then
    r.asked_keep = amount
    return ask(r, Asked.CANCEL)
  end
  finish(q, r, State.CANCELLED, amount, now)
  return Answer.DONE
end

function changes.prioritise(r)
  local waits_at = r.blocked_at
  if r.state ~= State.RUNNING then remove_from_indexes(q, r) end
  r.priority, r.blocked_at = amount, waits_at
  use_priority(q, amount) -- a running job may be queued with it later
  if r.state ~= State.RUNNING then add_to_indexes(q, r) end
  save(q, r)
  return Answer.DONE
end

function changes.delete(r)
  if r.unique and call('HGET', q.unique, r.unique) == r.id then delete_unique(q, r.unique) end
  remove_from_indexes(q, r)
  delete_job(q, r)
  return Answer.DONE
end

-- A signal is a once value (`rules.durable`).
function changes.signal(r)
  local values, name = q.once_values .. r.id, ARGV[6]
  if call('HSETNX', values, SIGNAL_PREFIX .. name, ARGV[4]) == 0 then return Answer.TAKEN end
  r.extras = true
  note(q, r, now, TimelineKind.SIGNALLED, name)
  local waits = r.state == State.QUEUED and r.due > now
  if waits and call('HEXISTS', values, WAIT_PREFIX .. name) == 1 then
    move(q, r, State.QUEUED, now)
  else
    save_values(q, r)
  end
  return Answer.DONE
end

-- The fixed part of a job with other arguments, which are packed as MessagePack packs bytes.
local function with_payload(fixed, packed)
  local first = arguments_in(fixed, client_fields_at(fixed))
  return fixed:sub(1, first) .. packed .. fixed:sub(end_of_bytes(fixed, first) + 1)
end

function changes.rewrite(r)
  local ok, fixed = pcall(with_payload, r.fixed, ARGV[4])
  if not ok then return Answer.UNREADABLE end
  note(q, r, now, TimelineKind.AMENDED, why)
  r.fixed = fixed
  call('HSET', q.jobs, r.id, fixed)
  save_values(q, r)
  return Answer.DONE
end

local answers = {}
for i = 7, #ARGV do
  local r, answer = load(q, ARGV[i]), Answer.TOO_LATE
  if not r then
    answer = Answer.UNKNOWN
  elseif r.unreadable and (change == 'retry' or change == 'rewrite') then
    answer = Answer.UNREADABLE
  elseif AMENDABLE[change][r.state] and (change == 'delete' or not r.unreadable) then
    answer = changes[change](r)
  end
  answers[i - 6] = answer
  if answer == Answer.DONE then topics[q.name] = true end
end
enter_wakes(q, now)
notify(ARGV[2])
return answers
