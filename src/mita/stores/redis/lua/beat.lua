-- beat: the heartbeat of a worker.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock  2 id  3 description  4 how long the heartbeat counts
-- Returns now
-- include keys
-- include clock
local now, s = clock(ARGV[1]), namespace_of(KEYS[1])
call('HSET', s.workers, ARGV[2], ARGV[3])
call('ZADD', s.heartbeat_ends, now + tonumber(ARGV[4]), ARGV[2])
call('HSET', s.seen, ARGV[2], now)
return now
