-- beat: a worker describes itself.
-- KEYS  1 root of what is shared
-- ARGV  1 now, '' to ask the server  2 id  3 description  4 how long that is believed
-- gives now
-- include keys
-- include record
local now, s = clock(ARGV[1]), shared_of(KEYS[1])
call('HSET', s.workers, ARGV[2], ARGV[3])
call('ZADD', s.beats, now + tonumber(ARGV[4]), ARGV[2])
call('HSET', s.seen, ARGV[2], now)
return now
