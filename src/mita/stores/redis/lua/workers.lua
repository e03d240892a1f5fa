-- workers: the workers whose last heartbeat still counts.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock
-- Returns for each: description, time of the last heartbeat
-- include keys
-- include clock
local now, s, rows = clock(ARGV[1]), namespace_of(KEYS[1]), {}
for _, id in ipairs(call('ZRANGEBYSCORE', s.heartbeat_ends, '(' .. now, '+inf')) do
  rows[#rows + 1] = { call('HGET', s.workers, id), tonumber(call('HGET', s.seen, id) or 0) or 0 }
end
return rows
