-- timeline: the lines of a job's timeline.
-- KEYS  1 root of the queue
-- ARGV  1 id
-- Returns the lines, false without such a job
-- include keys
-- include clock
local q = queue_of(KEYS[1])
if call('HEXISTS', q.jobs, ARGV[1]) == 0 then return false end
return call('LRANGE', q.events .. ARGV[1], 0, -1)
