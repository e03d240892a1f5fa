-- parcels: jobs of won firings that somebody promised a while ago and has not delivered.
-- KEYS  1 root of what is shared
-- ARGV  1 now, '' to ask the server  2 how long ago at least
-- gives name, parcel, name, parcel, …
-- include keys
-- include record
local now, s, said = clock(ARGV[1]), shared_of(KEYS[1]), {}
for _, name in ipairs(call('ZRANGEBYSCORE', s.promised, '-inf', now - tonumber(ARGV[2]), 'LIMIT', 0, 10)) do
  said[#said + 1] = name
  said[#said + 1] = call('HGET', s.parcels, name)
end
return said
