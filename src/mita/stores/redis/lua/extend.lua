-- extend: keep claims for longer.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 lease  then handle and token of each claim
-- gives held, lost or cancel for each
-- include keys
-- include record
local now, q, said, leases = clock(ARGV[1]), sound(queue_of(KEYS[1])), {}, {}
local ids = {}
for at = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[at]:sub(10) end
local lives = call('HMGET', q.live, unpack(ids))
for i, live in ipairs(lives) do
  local r = live and read_live(live)
  local holds = r and r.state == 'running' and r.token == tonumber(ARGV[i * 2 + 2])
  said[i] = not holds and 'lost' or r.asked == 'cancel' and 'cancel' or 'held'
  if holds then
    leases[#leases + 1] = now + tonumber(ARGV[2])
    leases[#leases + 1] = ARGV[i * 2 + 1]
  end
end
if #leases > 0 then call('ZADD', q.lease, 'XX', unpack(leases)) end
return said
