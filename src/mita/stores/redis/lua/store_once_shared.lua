-- share: keep a value for all jobs, for a while, unless there is one already.
-- KEYS  1 root of what is shared  2 root of the queue of the job that says so, none if that was asked before
-- ARGV  1 now, '' to ask the server  2 name  3 value  4 keep  5 id  6 token
-- gives the value that stands, false for a stale token
-- include keys
-- include record
local now, s = clock(ARGV[1]), shared_of(KEYS[1])
if KEYS[2] then
  local r = load(queue_of(KEYS[2]), ARGV[5])
  if not r or r.state ~= 'running' or r.token ~= tonumber(ARGV[6]) then return false end
end
local ends = call('ZSCORE', s.shared_ends, ARGV[2])
if ends and tonumber(ends) > now then return call('HGET', s.shared, ARGV[2]) end
call('HSET', s.shared, ARGV[2], ARGV[3])
call('ZADD', s.shared_ends, now + tonumber(ARGV[4]), ARGV[2])
return ARGV[3]
