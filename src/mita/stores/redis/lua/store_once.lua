-- store_once: store a once value of a job, unless there is one.
-- KEYS  1 root of the queue
-- ARGV  1 id  2 token  3 '+' and name, or '' only to check the token  4 value
-- Returns the stored value, false for a stale token
-- include keys
-- include type_checks
-- include record
local q = check_types(queue_of(KEYS[1]))
local r = load(q, ARGV[1])
if not has_token(r, ARGV[2]) then return false end
if ARGV[3] == '' then return '' end
local values, name = q.once_values .. r.id, ARGV[3]:sub(2)
if call('HSETNX', values, name, ARGV[4]) == 1 and not r.extras then
  r.extras = true
  save(q, r)
end
return call('HGET', values, name)
