-- subscribed_queues: who listens to what happens.
-- KEYS  1 root of what is shared
-- ARGV  1 now, '' to ask the server
-- gives queue and id of each
-- include clock
-- tails ears
return call('ZRANGEBYSCORE', KEYS[1] .. EARS, '(' .. clock(ARGV[1]), '+inf')
