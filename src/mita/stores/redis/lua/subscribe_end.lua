-- subscribe_end: remove a subscription to events.
-- KEYS  1 root of the namespace
-- ARGV  1 queue and id
-- include keys
return redis.call('ZREM', namespace_of(KEYS[1]).subscriptions, ARGV[1])
