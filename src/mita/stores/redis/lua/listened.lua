-- listened: who listens to what happens.
-- KEYS  1 root of what is shared
-- ARGV  1 now, '' to ask the server
-- gives queue and id of each
-- include keys
-- include record
local now, s = clock(ARGV[1]), shared_of(KEYS[1])
return call('ZRANGEBYSCORE', s.ears, '(' .. now, '+inf')
