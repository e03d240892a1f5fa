-- enqueue_find_ids: which of these jobs a queue has.
-- KEYS  1 root of the queue
-- ARGV  ids
-- Returns 1 for each that exists, else 0
-- include keys
local q, found = queue_of(KEYS[1]), {}
for i, id in ipairs(ARGV) do found[i] = redis.call('HEXISTS', q.jobs, id) end
return found
