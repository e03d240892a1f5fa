-- where: which jobs this queue has.
-- KEYS  1 root of the queue
-- ARGV  ids
-- gives 1 for each that is there
-- include keys
local q, said = queue_of(KEYS[1]), {}
for i, id in ipairs(ARGV) do said[i] = redis.call('HEXISTS', q.jobs, id) end
return said
