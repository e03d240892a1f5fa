-- workers: those whose last beat has not run out.
-- KEYS  1 root of what is shared
-- ARGV  1 now, '' to ask the server
-- gives of each: description, when it was seen
-- include keys
-- include record
local now, s, said = clock(ARGV[1]), shared_of(KEYS[1]), {}
for _, id in ipairs(call('ZRANGEBYSCORE', s.beats, '(' .. now, '+inf')) do
  said[#said + 1] = { call('HGET', s.workers, id), tonumber(call('HGET', s.seen, id) or 0) or 0 }
end
return said
