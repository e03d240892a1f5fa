-- When there may be more to claim.

-- When the groups of a priority have their first due job; math.huge if they have none.
local function first_due_of_groups(q, priority)
  local due = math.huge
  for _, entries in ipairs({ q.groups_next, q.groups_later }) do
    local found = call('ZRANGE', entries .. priority, '0', '0', 'WITHSCORES')[2]
    due = math.min(due, tonumber(found or math.huge))
  end
  return due
end

-- After a claim in a queue with groups or ageing: for each priority when its next job is due. A job
-- in a list is due now.
local function read_next_due(q, c)
  if c.left <= 0 and c.limit > 0 then return end -- a worker that got all it wanted asks again
  for priority, due in pairs(q.first_due) do
    if uses(q, GROUPS) then due = math.min(due, first_due_of_groups(q, priority)) end
    q.next_due[priority] = call('LLEN', ready_of(q, priority)) > 0 and 0 or due
  end
end
