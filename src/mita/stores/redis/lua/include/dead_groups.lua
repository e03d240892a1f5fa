-- Failed jobs by their group (`rules.fingerprint`). Those without a group are in the group ''.

local function enter_group(q, group, finished, handle)
  call('ZADD', q.dead .. group, finished, handle)
  call('SADD', q.dead_groups, group)
end

local function leave_group(q, group, handle)
  call('ZREM', q.dead .. group, handle)
  if call('EXISTS', q.dead .. group) == 0 then call('SREM', q.dead_groups, group) end
end
