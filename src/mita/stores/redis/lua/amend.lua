-- amend: what a person asks of jobs by id.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 channel of the bell  3 what: reschedule, cancel, retry, prioritise, delete
--       4 wait, keep or priority  5 moment (reschedule, retry), '' for none  6 note (reschedule, retry, cancel)  then ids
-- gives done, asked, too late, taken, unreadable or unknown for each
-- include keys
-- include record
-- include state_indexes
local now, q, what = clock(ARGV[1]), sound_lines(sound(queue_of(KEYS[1]))), ARGV[3]
local amount, at, why = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local amends = {}

local function ask(r, how)
  r.asked = how
  if how == 'cancel' then rung[ASKED] = true end
  save(q, r)
  return 'asked'
end

local function revive(r)
  if r.unique then
    local holder = unique_holder(q, r.unique, now)
    if holder and holder ~= r.id then return 'taken' end
    take_unique(q, r.unique, r.id)
  end
  note(q, r, now, 'revived', why)
  leave(q, r)
  call('HDEL', q.error, r.id)
  call('HDEL', q.result, r.id)
  for _, counter in ipairs({ 'attempts', 'reschedules', 'busy', 'interruptions', 'crashes' }) do r[counter] = 0 end
  for _, field in ipairs({ 'finished', 'expires', 'stranded', 'worker', 'started' }) do r[field] = false end
  r.state, r.due = 'queued', moment(amount, at, now)
  stand(q, r)
  save(q, r)
  return 'done'
end

function amends.reschedule(r)
  if r.state == 'failed' or r.state == 'cancelled' then return revive(r) end
  if ENDED[r.state] or r.asked == 'cancel' then return 'too late' end
  note(q, r, now, 'rescheduled', why)
  r.reschedules = r.reschedules + 1
  local due = moment(amount, at, now)
  if r.state == 'running' then
    r.asked_due = due
    return ask(r, 'reschedule')
  end
  leave(q, r)
  r.state, r.due = 'queued', due
  stand(q, r)
  save(q, r)
  return 'done'
end

function amends.cancel(r)
  if ENDED[r.state] then return 'too late' end
  note(q, r, now, 'cancelled', why)
  if r.state == 'running' then
    r.asked_keep = amount
    return ask(r, 'cancel')
  end
  finish(q, r, 'cancelled', amount, now)
  return 'done'
end

function amends.retry(r)
  return (r.state == 'failed' or r.state == 'cancelled') and revive(r) or 'too late'
end

function amends.prioritise(r)
  if ENDED[r.state] then return 'too late' end
  if r.state ~= 'running' then leave(q, r) end
  r.priority = amount
  if r.state ~= 'running' then stand(q, r) end
  save(q, r)
  return 'done'
end

function amends.delete(r)
  if not ENDED[r.state] then return 'too late' end
  if r.unique and call('HGET', q.unique, r.unique) == r.id then
    call('HDEL', q.unique, r.unique)
    call('ZREM', q.unique_ends, r.unique)
  end
  leave(q, r)
  forget(q, r)
  return 'done'
end

local said = {}
for i = 7, #ARGV do
  local r = load(q, ARGV[i])
  if r and r.unreadable and what ~= 'delete' then
    said[i - 6] = what == 'retry' and 'unreadable' or 'too late'
  else
    said[i - 6] = r and amends[what](r) or 'unknown'
  end
  if said[i - 6] == 'done' then rung[q.name] = true end
end
ring(ARGV[2])
return said
