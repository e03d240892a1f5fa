-- find_repeats: repeats by key.
-- KEYS  1 root of the namespace
-- ARGV  keys
-- Returns {key, spec, what changes} of each, false for one that is not stored
-- include keys
-- include clock
-- include repeats
local s, rows = namespace_of(KEYS[1]), {}
for i, key in ipairs(ARGV) do
  rows[i] = call('HEXISTS', s.repeats, key) == 1 and repeat_row(s, key)
end
return rows
