-- prune_expired: ended jobs whose retention is over.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 limit
-- Returns {handle, end of its retention, handle, …}, the oldest end first
-- include keys
-- include clock
local now, q = clock(ARGV[1]), queue_of(KEYS[1])
return call('ZRANGEBYSCORE', q.expiry, '-inf', now, 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[2]))
