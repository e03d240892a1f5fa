-- fire_undelivered: firings whose jobs should have been enqueued by now (on a cluster).
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock  2 how long ago they fired at least
-- Returns {name, packed jobs, name, packed jobs, …}
-- include keys
-- include clock
local FIRINGS = 10
local now, s, found = clock(ARGV[1]), namespace_of(KEYS[1]), {}
local before = now - tonumber(ARGV[2])
local names = call('ZRANGEBYSCORE', s.undelivered_since, '-inf', before, 'LIMIT', 0, FIRINGS)
for _, name in ipairs(names) do
  found[#found + 1] = name
  found[#found + 1] = call('HGET', s.undelivered, name)
end
return found
