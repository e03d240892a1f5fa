-- extend: keep claims for longer.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 lease  then id and token of each claim
-- gives held, lost or cancel for each
-- include keys
-- include record
local now, q, said, leases = clock(ARGV[1]), sound(queue_of(KEYS[1])), {}, {}
local ends, ids, batches, seen = now + tonumber(ARGV[2]), {}, {}, {}
for at = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[at] end
local lives = call('HMGET', q.live, unpack(ids))

for i, live in ipairs(lives) do
  local batch = live and is_batch(live)
  local r = live and live_of(q, live, batch and live)
  local holds = r and r.state == 'running' and r.token == tonumber(ARGV[i * 2 + 2])
  said[i] = not holds and 'lost' or r.asked == 'cancel' and 'cancel' or 'held'
  local first = not seen[ids[i]] -- one that is named twice must not count for another of its batch
  seen[ids[i]] = true
  if holds and batch and first then
    batches[live] = batches[live] or {}
    table.insert(batches[live], ids[i])
  elseif holds and first then
    leases[#leases + 1] = ids[i]
  end
end

-- A batch of which nobody is missing goes on as one.
for batch, held in pairs(batches) do
  if #held == tonumber(call('HGET', q.left, batch) or 0) then
    call('ZADD', q.lease, 'XX', ends, batch)
  else
    for _, id in ipairs(held) do
      save(q, load(q, id))
      leases[#leases + 1] = id
    end
  end
end
if #leases > 0 then
  local moved = {}
  for i, fixed in ipairs(call('HMGET', q.jobs, unpack(leases))) do
    moved[i * 2 - 1], moved[i * 2] = ends, handle_of(leases[i], fixed or '')
  end
  call('ZADD', q.lease, 'XX', unpack(moved))
end
return said
