-- timeline: what happened to a job.
-- KEYS  1 root of the queue
-- ARGV  1 id
-- gives its lines, false for a job that is not there
-- include keys
-- include record
local q = queue_of(KEYS[1])
local r = load(q, ARGV[1])
return r and call('LRANGE', q.events .. r.id, 0, -1) or false
