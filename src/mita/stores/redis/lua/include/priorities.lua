-- Which priorities a queue has ever used, as a text of digits. Most queues use one or two, and the
-- others need not be looked at.

local function used_priorities(q)
  if not q.used then q.used = call('HGET', q.meta, 'lines') or '' end
  return q.used
end

-- How many jobs in the list of a priority are only marked as removed (see state_indexes).
local function removed_from_list(q, priority)
  return tonumber(call('HGET', q.meta, 'gone:' .. priority) or 0) or 0
end
