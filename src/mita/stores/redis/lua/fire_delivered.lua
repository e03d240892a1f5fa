-- delivered: the jobs of a firing are all there.
-- KEYS  1 root of what is shared
-- ARGV  1 name of the parcel
-- include keys
local s = shared_of(KEYS[1])
redis.call('HDEL', s.parcels, ARGV[1])
redis.call('ZREM', s.promised, ARGV[1])
return 0
