-- list_repeats: a slice of all repeats.
-- KEYS  1 root of what is shared
-- ARGV  1 where HSCAN begins
-- gives where the next slice begins, and {key, spec, what changes} of each
-- include keys
-- include record
-- include repeats
local s, said = shared_of(KEYS[1]), {}
local slice = call('HSCAN', s.specs, ARGV[1], 'COUNT', 500)
for i = 1, #slice[2], 2 do said[#said + 1] = shown(s, slice[2][i]) end
return { slice[1], said }
