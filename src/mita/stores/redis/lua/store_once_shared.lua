-- store_once_shared: store a once value for all jobs, for a while, unless there is one.
-- KEYS  1 root of the namespace  2 root of the queue of the job; none if its token was checked
-- ARGV  1 now, '' to read the server's clock  2 name  3 value  4 keep  5 id  6 token
-- Returns the stored value, false for a stale token
-- include keys
-- include record
local now, s = clock(ARGV[1]), namespace_of(KEYS[1])
if KEYS[2] and not has_token(load(queue_of(KEYS[2]), ARGV[5]), ARGV[6]) then return false end
local ends = call('ZSCORE', s.shared_once_ends, ARGV[2])
if ends and tonumber(ends) > now then return call('HGET', s.shared_once, ARGV[2]) end
call('HSET', s.shared_once, ARGV[2], ARGV[3])
call('ZADD', s.shared_once_ends, now + tonumber(ARGV[4]), ARGV[2])
return ARGV[3]
