-- dead_groups_correct: put failed jobs that are in no group into the group '', and take jobs out of
-- groups that have not failed. Both are left behind by a version of Mita that has no groups.
-- KEYS  1 root of the queue
-- include keys
-- include type_checks
-- include dead_groups
local MOST_SETS = 1000 -- in one command
local q, sets, sum = check_types(queue_of(KEYS[1])), {}, 0
for _, group in ipairs(call('SMEMBERS', q.dead_groups)) do
  if group ~= '' then sets[#sets + 1] = q.dead .. group end
end
for _, set in ipairs(sets) do sum = sum + call('ZCARD', set) end
if sum > call('ZCARD', q.failed) then
  for _, set in ipairs(sets) do
    call('ZINTERSTORE', set, 2, set, q.failed, 'WEIGHTS', 1, 0)
    if call('EXISTS', set) == 0 then call('SREM', q.dead_groups, set:sub(#q.dead + 1)) end
  end
end
local from = q.failed
for i = 1, math.max(1, #sets), MOST_SETS do
  local last = math.min(i + MOST_SETS - 1, #sets)
  call('ZDIFFSTORE', q.dead, last - i + 2, from, unpack(sets, i, last))
  from = q.dead
end
if call('EXISTS', q.dead) == 1 then
  call('SADD', q.dead_groups, '')
else
  call('SREM', q.dead_groups, '')
end
return 0
