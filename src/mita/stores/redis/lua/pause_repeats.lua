-- pause_repeats: pause active repeats.
-- KEYS  1 root of the namespace
-- ARGV  1 channel for wake-ups  2 reason  then keys
-- Returns 1 for each that was active, else 0
-- include keys
-- include clock
-- include notify
-- include repeats
local s, paused = namespace_of(KEYS[1]), {}
for i = 3, #ARGV do
  local r = read_repeat(s, ARGV[i])
  paused[i - 2] = 0
  if r and r.state == RepeatState.ACTIVE then
    r.state, r.pause_reason = RepeatState.PAUSED, ARGV[2]
    write_repeat(s, ARGV[i], r)
    topics[REPEATS_TOPIC] = true
    paused[i - 2] = 1
  end
end
notify(ARGV[1])
return paused
