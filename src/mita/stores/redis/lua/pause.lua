-- pause: nothing of this queue is handed over any more.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server
-- include keys
-- include record
call('HSETNX', queue_of(KEYS[1]).meta, 'paused', clock(ARGV[1]))
return 0
