-- shared: what was remembered for all jobs.
-- KEYS  1 root of what is shared
-- ARGV  1 now, '' to ask the server  2 name
-- gives the value, false if there is none
-- include keys
-- include record
local now, s = clock(ARGV[1]), shared_of(KEYS[1])
local ends = call('ZSCORE', s.shared_ends, ARGV[2])
return ends and tonumber(ends) > now and call('HGET', s.shared, ARGV[2])
