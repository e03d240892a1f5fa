-- once_values: the once values of jobs.
-- KEYS  1 root of the queue
-- ARGV  ids
-- Returns a list of name, value, name, value … for each id, false for one that has none
-- include keys
local q, found = queue_of(KEYS[1]), {}
for i, id in ipairs(ARGV) do
  local values = redis.call('HGETALL', q.once_values .. id)
  found[i] = #values > 0 and values
end
return found
