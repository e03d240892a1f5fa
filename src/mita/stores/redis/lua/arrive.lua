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

local function count_arrivals(values)
  local count = 0
  for _, name in ipairs(call('HKEYS', values)) do
    if name:sub(1, #ARRIVAL_PREFIX) == ARRIVAL_PREFIX then count = count + 1 end
  end
  return count
end

local function arrive(r, sender, value, needs)
  if not r then return Answer.UNKNOWN end
  if r.state == State.SUCCEEDED or r.unreadable then return Answer.TOO_LATE end
  local values = q.once_values .. r.id
  if call('HSETNX', values, ARRIVAL_PREFIX .. sender, value) == 0 then return Answer.TAKEN end
  r.extras = true
  local may_be_due = r.state == State.QUEUED and r.due > now and call('HLEN', values) >= needs
  if may_be_due and count_arrivals(values) >= needs then
    move(q, r, State.QUEUED, now)
    topics[q.name] = true
  else
    save_values(q, r)
  end
  return Answer.DONE
end

for i = 3, #ARGV, 4 do
  local answer = arrive(load(q, ARGV[i]), ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]))
  answers[#answers + 1] = answer
end
notify(ARGV[2])
return answers
