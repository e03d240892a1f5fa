-- subscribe: register a subscription to events, or renew it.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock  2 queue and id  3 for how long it counts
-- include keys
-- include clock
local now, s = clock(ARGV[1]), namespace_of(KEYS[1])
call('ZREMRANGEBYSCORE', s.subscriptions, '-inf', now)
call('ZADD', s.subscriptions, now + tonumber(ARGV[3]), ARGV[2])
return 1
