-- store_once: keep a value for the life of a job unless there is one already.
-- KEYS  1 root of the queue
-- ARGV  1 id  2 token  3 '+' name ('' to ask only whether the token holds)  4 value
-- gives the value that stands, false for a stale token
-- include keys
-- include record
local q = sound(queue_of(KEYS[1]))
local r = load(q, ARGV[1])
if not r or r.state ~= 'running' or r.token ~= tonumber(ARGV[2]) then return false end
if ARGV[3] == '' then return '' end
local memos = q.memos .. r.id
local name = ARGV[3]:sub(2)
if call('HSETNX', memos, name, ARGV[4]) == 1 and not r.extras then
  r.extras = true
  save(q, r)
end
return call('HGET', memos, name)
