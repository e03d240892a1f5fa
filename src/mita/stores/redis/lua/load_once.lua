-- load_once: the once value of a job.
-- KEYS  1 root of the queue
-- ARGV  1 id  2 name
-- Returns the value, false if there is none
-- include keys
return redis.call('HGET', queue_of(KEYS[1]).once_values .. ARGV[1], ARGV[2])
