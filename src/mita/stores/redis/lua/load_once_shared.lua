-- load_once_shared: a once value for all jobs.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock  2 name
-- Returns the value, false if there is none
-- include keys
-- include clock
local now, s = clock(ARGV[1]), namespace_of(KEYS[1])
local ends = call('ZSCORE', s.shared_once_ends, ARGV[2])
return ends and tonumber(ends) > now and call('HGET', s.shared_once, ARGV[2])
