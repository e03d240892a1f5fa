-- fire_delivered: the jobs of a firing are all enqueued (on a cluster).
-- KEYS  1 root of the namespace
-- ARGV  1 name of the firing
-- include keys
local s = namespace_of(KEYS[1])
redis.call('HDEL', s.undelivered, ARGV[1])
redis.call('ZREM', s.undelivered_since, ARGV[1])
return 0
