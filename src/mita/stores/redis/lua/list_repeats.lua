-- list_repeats: a part of all repeats.
-- KEYS  1 root of the namespace
-- ARGV  1 where HSCAN begins
-- Returns where the next part begins, and {key, spec, what changes} of each
-- include keys
-- include clock
-- include repeats
local s, rows = namespace_of(KEYS[1]), {}
local part = call('HSCAN', s.specs, ARGV[1], 'COUNT', 500)
for i = 1, #part[2], 2 do rows[#rows + 1] = repeat_row(s, part[2][i]) end
return { part[1], rows }
