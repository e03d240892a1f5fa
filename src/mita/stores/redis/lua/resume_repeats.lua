-- resume_repeats: resume paused repeats, which count their failures from 0.
-- KEYS  1 root of the namespace
-- ARGV  1 channel for wake-ups  then keys
-- Returns 1 for each that was paused, else 0
-- include keys
-- include clock
-- include notify
-- include repeats
local s, resumed = namespace_of(KEYS[1]), {}
for i = 2, #ARGV do
  local r = read_repeat(s, ARGV[i])
  resumed[i - 1] = 0
  if r and r.state == RepeatState.PAUSED then
    r.state, r.pause_reason, r.failures = RepeatState.ACTIVE, '', 0
    write_repeat(s, ARGV[i], r)
    topics[REPEATS_TOPIC] = true
    resumed[i - 1] = 1
  end
end
notify(ARGV[1])
return resumed
