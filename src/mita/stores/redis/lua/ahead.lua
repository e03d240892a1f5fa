-- ahead: how many go first.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 id
-- gives a number, -1 for a job that is not in line, false for one that is not there
-- include keys
-- include record
local now, q = clock(ARGV[1]), queue_of(KEYS[1])
local r = load(q, ARGV[2])
if not r then return false end
if r.state == 'blocked' then return call('ZRANK', q.waiting .. r.resource, r.handle) end
if r.state ~= 'queued' or r.due > now then return -1 end
local ahead = call('ZRANK', q.due[r.priority], r.handle)
for priority = r.priority + 1, 9 do ahead = ahead + call('ZCOUNT', q.due[priority], '-inf', now) end
return ahead
