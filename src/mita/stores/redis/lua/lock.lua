-- lock: take a lock that is free, has run out or is this holder's already.
-- KEYS  1 root of what is shared
-- ARGV  1 now, '' to ask the server  2 name  3 holder  4 how long from now
-- gives 1 when it was taken
-- include keys
-- include record
local now, s, name = clock(ARGV[1]), shared_of(KEYS[1]), ARGV[2]
local ends = call('ZSCORE', s.lock_ends, name)
if ends and tonumber(ends) > now and call('HGET', s.locks, name) ~= ARGV[3] then return 0 end
call('HSET', s.locks, name, ARGV[3])
call('ZADD', s.lock_ends, now + tonumber(ARGV[4]), name)
return 1
