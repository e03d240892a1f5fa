-- switch_repeats: pause or resume those that stand where that makes sense.
-- KEYS  1 root of what is shared
-- ARGV  1 channel of the bell  2 from which state  3 to which  then keys
-- gives 1 for each that was switched
-- include keys
-- include record
-- include repeats
local s, said = shared_of(KEYS[1]), {}
for i = 4, #ARGV do
  local r = read_repeat(s, ARGV[i])
  said[i - 3] = 0
  if r and r.state == ARGV[2] then
    r.state = ARGV[3]
    write_repeat(s, ARGV[i], r)
    rung[REPEATS] = true
    said[i - 3] = 1
  end
end
ring(ARGV[1])
return said
