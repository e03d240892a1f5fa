-- leave: delete the description of a worker.
-- KEYS  1 root of the namespace
-- ARGV  1 id
-- include keys
local s = namespace_of(KEYS[1])
redis.call('ZREM', s.heartbeat_ends, ARGV[1])
redis.call('HDEL', s.workers, ARGV[1])
redis.call('HDEL', s.seen, ARGV[1])
return 0
