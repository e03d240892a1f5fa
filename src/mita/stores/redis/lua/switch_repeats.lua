-- switch_repeats: pause or resume those that stand where that makes sense.
-- KEYS  1 root of what is shared
-- ARGV  1 from which state  2 to which  then keys
-- gives 1 for each that was switched
-- include keys
-- include record
-- include repeating
local s, said = shared_of(KEYS[1]), {}
for i = 3, #ARGV do
  local r = read_repeat(s, ARGV[i])
  said[i - 2] = 0
  if r and r.state == ARGV[1] then
    r.state = ARGV[2]
    write_repeat(s, ARGV[i], r)
    said[i - 2] = 1
  end
end
return said
