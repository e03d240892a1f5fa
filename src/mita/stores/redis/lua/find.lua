-- find: all there is of jobs by id.
-- KEYS  1 root of the queue
-- ARGV  ids
-- gives {fixed half, live half, error, result, progress, end of the lease} of each, false for one that is not there
-- include keys
-- include record
local q, said = queue_of(KEYS[1]), {}
local fixed = call('HMGET', q.jobs, unpack(ARGV))
for i, id in ipairs(ARGV) do
  said[i] = fixed[i] and {
    fixed[i], call('HGET', q.live, id), call('HGET', q.error, id), call('HGET', q.result, id), call('HGET', q.progress, id),
    call('ZSCORE', q.lease, fixed[i]:sub(23, 22 + fixed[i]:byte(22))),
  }
end
return said
