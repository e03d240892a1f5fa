-- find: everything that is stored of jobs, by id.
-- KEYS  1 root of the queue
-- ARGV  ids
-- Returns {fixed part, live part, error, result, progress, end of the lease} of each, false for one
--       that is not stored
-- include keys
-- include record
local q, rows = queue_of(KEYS[1]), {}
local fixed = call('HMGET', q.jobs, unpack(ARGV))
for i, id in ipairs(ARGV) do
  local part = fixed[i]
  local live = part and call('HGET', q.live, id)
  local batch = live and is_batch(live) and live
  rows[i] = part and {
    part, batch and shared_live(q, batch) or live, call('HGET', q.error, id),
    call('HGET', q.result, id), call('HGET', q.progress, id),
    call('ZSCORE', q.lease, batch or handle_of(id, part)),
  }
end
return rows
