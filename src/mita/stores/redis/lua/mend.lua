-- mend: end the holds that have run out, and wake who waits for a key that is free: the net under a lost wake-up.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 channel of the bell
-- include keys
-- include record
-- include places
-- include resources
local now, q = clock(ARGV[1]), sound_lines(sound(queue_of(KEYS[1])))
end_holds(q, now)
for _, key in ipairs(call('SMEMBERS', q.waited)) do wake(q, key, now, MOST) end
ring(ARGV[2])
return 0
