-- subscribed_queues: the registered subscriptions to events.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock
-- Returns queue and id of each
-- include clock
-- key suffixes: subscriptions
return call('ZRANGEBYSCORE', KEYS[1] .. SUBSCRIPTIONS, '(' .. clock(ARGV[1]), '+inf')
