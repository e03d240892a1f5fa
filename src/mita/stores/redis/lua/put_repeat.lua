-- put_repeat: insert a repeat, or replace its spec and cursor. The same spec again changes nothing.
-- KEYS  1 root of what is shared
-- ARGV  1 key  2 spec  3 cursor, '' for none  4 state  5 reason  6 revision  7 count  8 last, '' for never
--       9 channel of the bell
-- gives key, spec and what changes, as stored
-- include keys
-- include record
-- include repeats
local s, key = shared_of(KEYS[1]), ARGV[1]
local r = read_repeat(s, key)
if r and call('HGET', s.specs, key) == ARGV[2] and (r.state == 'active' or r.state == 'paused') then return shown(s, key) end
local goes_on = r and ARGV[4] == 'active' and ARGV[3] == '' -- only the spec is new: a fire in between has moved the cursor
if r then
  r.revision = r.revision + 1
else
  r = { revision = tonumber(ARGV[6]), count = tonumber(ARGV[7]), last = tonumber(ARGV[8]) or false }
end
if not goes_on then
  r.state = r.state == 'paused' and 'paused' or ARGV[4]
  r.cursor, r.reason = tonumber(ARGV[3]) or false, ARGV[5]
end
call('HSET', s.specs, key, ARGV[2])
write_repeat(s, key, r)
rung[REPEATS] = true
ring(ARGV[9])
return shown(s, key)
