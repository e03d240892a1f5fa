-- arrive: tell jobs how others have ended.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 channel for wake-ups
--       then for each arrival: receiver, sender, value, how many jobs the receiver needs
-- Returns an `Answer` for each arrival
-- include keys
-- include type_checks
-- include record
-- include state_indexes
local now, q, answers = clock(ARGV[1]), check_used_types(queue_of(KEYS[1])), {}

-- The receivers by id, and in the order in which they were first told something. Each is read and
-- written once, however many jobs tell it: the last step of a group is told by all of its members.
local by_id, changed = {}, {}

local function receiver(id)
  if by_id[id] == nil then by_id[id] = load(q, id) or false end
  return by_id[id]
end

local function count_arrivals(values)
  local count = 0
  for _, name in ipairs(call('HKEYS', values)) do
    if name:sub(1, #ARRIVAL_PREFIX) == ARRIVAL_PREFIX then count = count + 1 end
  end
  return count
end

-- Whether a job that has just been told one thing more has been told all that it needs. Its once
-- values are counted when it is first told something, and its arrivals only if there may be enough.
local function is_told_all(r, values, needs)
  r.values = r.values and r.values + 1 or call('HLEN', values)
  if r.arrivals then
    r.arrivals = r.arrivals + 1
  elseif r.values >= needs then
    r.arrivals = count_arrivals(values)
  end
  return r.arrivals and r.arrivals >= needs
end

local function arrive(r, sender, value, needs)
  if not r then return Answer.UNKNOWN end
  if r.state == State.SUCCEEDED or r.unreadable then return Answer.TOO_LATE end
  local values = q.once_values .. r.id
  if call('HSETNX', values, ARRIVAL_PREFIX .. sender, value) == 0 then return Answer.TAKEN end
  if not r.is_changed then changed[#changed + 1] = r end
  r.is_changed = true
  if r.state == State.QUEUED and r.due > now and is_told_all(r, values, needs) then
    r.is_due = true
  end
  return Answer.DONE
end

for i = 3, #ARGV, 4 do
  local answer = arrive(receiver(ARGV[i]), ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]))
  answers[#answers + 1] = answer
end
for _, r in ipairs(changed) do
  local has_extras = r.extras
  r.extras = true
  if r.is_due then
    move(q, r, State.QUEUED, now)
    topics[q.name] = true
  elseif not has_extras then
    save_values(q, r)
  end
end
notify(ARGV[2])
return answers
