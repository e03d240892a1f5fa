-- remove_repeats: delete repeats by key.
-- KEYS  1 root of the namespace
-- ARGV  1 channel for wake-ups  then keys
-- Returns 1 for each that was stored, else 0
-- include keys
-- include clock
-- include notify
local s, removed = namespace_of(KEYS[1]), {}
for i = 2, #ARGV do
  removed[i - 1] = call('HDEL', s.repeats, ARGV[i])
  call('HDEL', s.specs, ARGV[i])
  call('ZREM', s.fires, ARGV[i])
end
topics[REPEATS_TOPIC] = true
notify(ARGV[1])
return removed
