-- put_repeat: insert a repeat, or replace its spec and cursor. The same spec again changes nothing.
-- KEYS  1 root of what is shared
-- ARGV  1 key  2 spec  3 cursor, '' for none  4 state  5 reason  6 revision  7 count  8 last, '' for never
-- gives key, spec and what changes, as stored
-- include keys
-- include record
-- include repeating
local s, key = shared_of(KEYS[1]), ARGV[1]
local r = read_repeat(s, key)
if r and call('HGET', s.specs, key) == ARGV[2] and (r.state == 'active' or r.state == 'paused') then return shown(s, key) end
if r then
  r.revision = r.revision + 1
  r.state = r.state == 'paused' and 'paused' or ARGV[4]
else
  r = { state = ARGV[4], revision = tonumber(ARGV[6]), count = tonumber(ARGV[7]), last = tonumber(ARGV[8]) or false }
end
r.cursor, r.reason = tonumber(ARGV[3]) or false, ARGV[5]
call('HSET', s.specs, key, ARGV[2])
write_repeat(s, key, r)
return shown(s, key)
