-- put_repeat: insert a repeat, or replace its spec and cursor. The same spec changes nothing.
-- KEYS  1 root of the namespace
-- ARGV  1 key  2 spec  3 cursor, '' for none  4 state  5 reason  6 revision  7 count
--       8 last, '' for never  9 channel for wake-ups
-- Returns key, spec and what changes, as stored
-- include keys
-- include clock
-- include notify
-- include repeats
local s, key = namespace_of(KEYS[1]), ARGV[1]
local r = read_repeat(s, key)
local is_used = r and (r.state == RepeatState.ACTIVE or r.state == RepeatState.PAUSED)
if is_used and call('HGET', s.specs, key) == ARGV[2] then return repeat_row(s, key) end
-- Without a cursor only the spec is new: keep the cursor, which a firing may have moved meanwhile.
local keeps_cursor = r and ARGV[4] == RepeatState.ACTIVE and ARGV[3] == ''
if r then
  r.revision = r.revision + 1
else
  r = { revision = tonumber(ARGV[6]), count = tonumber(ARGV[7]), last = tonumber(ARGV[8]) or false }
end
if not keeps_cursor then
  r.state = r.state == RepeatState.PAUSED and r.state or ARGV[4]
  r.cursor, r.reason = tonumber(ARGV[3]) or false, ARGV[5]
end
call('HSET', s.specs, key, ARGV[2])
write_repeat(s, key, r)
topics[REPEATS_TOPIC] = true
notify(ARGV[9])
return repeat_row(s, key)
