-- pause: claim no jobs of this queue any more.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock
-- include keys
-- include clock
call('HSETNX', queue_of(KEYS[1]).meta, 'paused', clock(ARGV[1]))
return 0
