-- report_repeat: count a job of a repeat that ended.
-- KEYS  1 root of the namespace
-- ARGV  1 key  2 '1' if the job failed, '0' if it succeeded
-- Returns its failures in a row; 0 if there is no such repeat
-- include keys
-- include clock
-- include repeats
local s, key = namespace_of(KEYS[1]), ARGV[1]
local r = read_repeat(s, key)
if not r then return 0 end
local failures = ARGV[2] == '1' and r.failures + 1 or 0
if failures ~= r.failures then
  r.failures = failures
  write_repeat(s, key, r)
end
return failures
