-- expired: whose time is over, the longest first.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 lease or expiry  3 limit
-- gives now, and {handle, moment, handle, moment, …}
-- include keys
-- include record
local now, q = clock(ARGV[1]), queue_of(KEYS[1])
return { now, call('ZRANGEBYSCORE', q[ARGV[2]], '-inf', now, 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[3])) }
