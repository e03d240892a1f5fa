-- expired: whose time is over, the longest first. Jobs of a batch whose lease is over get leases of their own here.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 lease or expiry  3 limit
-- gives now, and {handle, moment, handle, moment, …}
-- include keys
-- include record
local now, q = clock(ARGV[1]), queue_of(KEYS[1])

local function take_apart(batch, ends)
  local lives, leases, ids = {}, {}, members(q, batch)
  local half = half_of(q, batch)
  if not half or not read_live(half) then half = pack_live(live_of(q, batch, batch)) end
  for i, id in ipairs(ids) do
    lives[i * 2 - 1], lives[i * 2] = id, half
    leases[i * 2 - 1], leases[i * 2] = ends, handle_of(id, call('HGET', q.jobs, id) or '')
  end
  if #ids > 0 then
    call('HSET', q.live, unpack(lives))
    call('ZADD', q.lease, unpack(leases))
  end
  end_batch(q, batch)
end

if ARGV[2] == 'lease' then
  for _, batch in ipairs(call('HKEYS', q.left)) do
    local ends = call('ZSCORE', q.lease, batch) or '0'
    if tonumber(ends) <= now then take_apart(batch, ends) end
  end
end
return { now, call('ZRANGEBYSCORE', q[ARGV[2]], '-inf', now, 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[3])) }
