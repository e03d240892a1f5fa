-- hold: nobody with this resource key starts before a moment; one that has come lifts the hold.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 channel of the bell  3 key  4 wait  5 moment, '' for none
-- include keys
-- include record
-- include state_indexes
-- include resource_keys
local now, q = clock(ARGV[1]), sound_lines(sound(queue_of(KEYS[1])))
hold(q, ARGV[3], moment(tonumber(ARGV[4]), tonumber(ARGV[5]), now), now)
ring(ARGV[2])
return 0
