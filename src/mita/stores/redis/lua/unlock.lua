-- unlock: give a lock back that is this holder's.
-- KEYS  1 root of what is shared
-- ARGV  1 channel of the bell  2 name  3 holder
-- include keys
-- include record
local s = shared_of(KEYS[1])
if call('HGET', s.locks, ARGV[2]) == ARGV[3] then
  call('HDEL', s.locks, ARGV[2])
  call('ZREM', s.lock_ends, ARGV[2])
  rung[REPEATS] = true
  ring(ARGV[1])
end
return 0
