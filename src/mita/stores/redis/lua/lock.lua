-- lock: take a lock that is free, is over, or is this holder's already.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock  2 name  3 holder  4 for how long
-- Returns 1 when it was taken, else 0
-- include keys
-- include clock
local now, s, name = clock(ARGV[1]), namespace_of(KEYS[1]), ARGV[2]
local ends = call('ZSCORE', s.lock_ends, name)
if ends and tonumber(ends) > now and call('HGET', s.locks, name) ~= ARGV[3] then return 0 end
call('HSET', s.locks, name, ARGV[3])
call('ZADD', s.lock_ends, now + tonumber(ARGV[4]), name)
return 1
