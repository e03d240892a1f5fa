-- leave: a worker goes.
-- KEYS  1 root of what is shared
-- ARGV  1 id
-- include keys
local s = shared_of(KEYS[1])
redis.call('ZREM', s.beats, ARGV[1])
redis.call('HDEL', s.workers, ARGV[1])
redis.call('HDEL', s.seen, ARGV[1])
return 0
