-- remove_repeats
-- KEYS  1 root of what is shared
-- ARGV  keys
-- gives 1 for each that was there
-- include keys
local s, said = shared_of(KEYS[1]), {}
for i, key in ipairs(ARGV) do
  said[i] = redis.call('HDEL', s.repeats, key)
  redis.call('HDEL', s.specs, key)
  redis.call('ZREM', s.fires, key)
end
return said
