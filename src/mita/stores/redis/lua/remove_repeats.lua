-- remove_repeats
-- KEYS  1 root of what is shared
-- ARGV  1 channel of the bell  then keys
-- gives 1 for each that was there
-- include keys
-- include record
local s, said = shared_of(KEYS[1]), {}
for i = 2, #ARGV do
  said[i - 1] = call('HDEL', s.repeats, ARGV[i])
  call('HDEL', s.specs, ARGV[i])
  call('ZREM', s.fires, ARGV[i])
end
rung[REPEATS] = true
ring(ARGV[1])
return said
