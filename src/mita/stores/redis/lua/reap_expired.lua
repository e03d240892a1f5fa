-- reap_expired: running jobs whose lease is over. The jobs of a batch whose lease is over get
-- leases of their own here.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 limit
-- Returns {handle, end of its lease, handle, …}, the oldest end first
-- include keys
-- include record
local now, q = clock(ARGV[1]), queue_of(KEYS[1])

local function split_batch(batch, ends)
  local lives, leases, ids = {}, {}, members(q, batch)
  local live = shared_live(q, batch)
  if not live or not read_live(live) then live = pack_live(live_of(q, batch, batch)) end
  for i, id in ipairs(ids) do
    lives[i * 2 - 1], lives[i * 2] = id, live
    leases[i * 2 - 1], leases[i * 2] = ends, handle_of(id, call('HGET', q.jobs, id) or '')
  end
  if #ids > 0 then
    call('HSET', q.live, unpack(lives))
    call('ZADD', q.lease, unpack(leases))
  end
  end_batch(q, batch)
end

for _, batch in ipairs(call('HKEYS', q.left)) do
  local ends = call('ZSCORE', q.lease, batch) or '0'
  if tonumber(ends) <= now then split_batch(batch, ends) end
end
return call('ZRANGEBYSCORE', q.lease, '-inf', now, 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[2]))
