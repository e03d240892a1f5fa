-- hold: start no job with this resource key before a point in time. One that is not in the future
-- ends the hold.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 channel for wake-ups  3 key  4 delay
--       5 point in time, '' for none
-- include keys
-- include type_checks
-- include record
-- include resource_keys
-- include moment
local now, q = clock(ARGV[1]), check_used_types(queue_of(KEYS[1]))
hold(q, ARGV[3], moment(tonumber(ARGV[4]), tonumber(ARGV[5]), now), now)
enter_wakes(q, now)
notify(ARGV[2])
return 0
