-- unlock: release a lock if this holder has it.
-- KEYS  1 root of the namespace
-- ARGV  1 channel for wake-ups  2 name  3 holder
-- include keys
-- include clock
-- include notify
local s = namespace_of(KEYS[1])
if call('HGET', s.locks, ARGV[2]) == ARGV[3] then
  call('HDEL', s.locks, ARGV[2])
  call('ZREM', s.lock_ends, ARGV[2])
  topics[REPEATS_TOPIC] = true
  notify(ARGV[1])
end
return 0
