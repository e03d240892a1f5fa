-- run_history: the counts of some minutes or hours.
-- KEYS  1 root of the namespace
-- ARGV  1 'history_minutes' or 'history_hours'  2… their starts
-- Returns for each: names and numbers by turns, packed
-- include keys
local s, found = namespace_of(KEYS[1]), {}
for at = 2, #ARGV do found[at - 1] = call('HGETALL', s[ARGV[1]] .. ':' .. ARGV[at]) end
return found
