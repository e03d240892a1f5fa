-- subscribe: somebody listens to what happens.
-- KEYS  1 root of what is shared
-- ARGV  1 now, '' to ask the server  2 queue and id  3 for how long that is believed
-- include keys
-- include record
local now, s = clock(ARGV[1]), shared_of(KEYS[1])
call('ZREMRANGEBYSCORE', s.ears, '-inf', now)
call('ZADD', s.ears, now + tonumber(ARGV[3]), ARGV[2])
return 1
