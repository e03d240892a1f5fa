-- pause_repeats: pause active repeats. Also resume_repeats, with the two states swapped.
-- KEYS  1 root of the namespace
-- ARGV  1 channel for wake-ups  2 old state  3 new state  then keys
-- Returns 1 for each that had the old state, else 0
-- include keys
-- include clock
-- include notify
-- include repeats
local s, switched = namespace_of(KEYS[1]), {}
for i = 4, #ARGV do
  local r = read_repeat(s, ARGV[i])
  switched[i - 3] = 0
  if r and r.state == ARGV[2] then
    r.state = ARGV[3]
    write_repeat(s, ARGV[i], r)
    topics[REPEATS_TOPIC] = true
    switched[i - 3] = 1
  end
end
notify(ARGV[1])
return switched
