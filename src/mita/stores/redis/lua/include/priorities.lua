-- Which priorities a queue has ever used. Most queues use one or two, and the others need not be
-- looked at. The field `lines` has one byte for each: the digit of 0 to 9, and the bytes before and
-- behind the digits for lower and higher priorities.

local function priority_byte(priority) return string.char((ZERO_BYTE + priority) % 256) end

-- The used priorities, the highest first.
local function used_priorities(q)
  if q.priorities then return q.priorities end
  local found, half = {}, 128
  q.used = q.used or call('HGET', q.meta, 'lines') or ''
  for i = 1, #q.used do found[i] = (q.used:byte(i) - ZERO_BYTE + half) % 256 - half end
  if #found > 1 then table.sort(found, function(one, other) return one > other end) end
  q.priorities = found
  return found
end

-- How many jobs in the list of a priority are only marked as removed (see state_indexes).
local function removed_from_list(q, priority)
  return tonumber(call('HGET', q.meta, 'gone:' .. priority) or 0) or 0
end
