-- find_repeats
-- KEYS  1 root of what is shared
-- ARGV  keys
-- gives {key, spec, what changes} of each, false for one that is not there
-- include keys
-- include record
-- include repeats
local s, said = shared_of(KEYS[1]), {}
for i, key in ipairs(ARGV) do said[i] = call('HEXISTS', s.repeats, key) == 1 and shown(s, key) end
return said
