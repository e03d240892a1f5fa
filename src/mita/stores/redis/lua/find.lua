-- find: all there is of jobs by id.
-- KEYS  1 root of the queue
-- ARGV  ids
-- gives {fixed half, live half, error, result, progress, end of the lease} of each, false for one that is not there
-- include keys
-- include record
local q, said = queue_of(KEYS[1]), {}
local fixed = call('HMGET', q.jobs, unpack(ARGV))
for i, id in ipairs(ARGV) do
  local live = fixed[i] and call('HGET', q.live, id)
  local batch = live and is_batch(live) and live
  said[i] = fixed[i] and {
    fixed[i], batch and half_of(q, batch) or live, call('HGET', q.error, id), call('HGET', q.result, id),
    call('HGET', q.progress, id), call('ZSCORE', q.lease, batch or handle_of(id, fixed[i])),
  }
end
return said
