-- unsubscribe: somebody listens no more.
-- KEYS  1 root of what is shared
-- ARGV  1 queue and id
-- include keys
-- include record
return call('ZREM', shared_of(KEYS[1]).ears, ARGV[1])
