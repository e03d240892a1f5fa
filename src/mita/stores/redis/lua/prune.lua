-- prune: forget ended jobs.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 how many succeeded ones may go beyond the newest `most`  3 most
--       then handles of jobs whose time is over
-- gives how many of the named went, and how many of the surplus
-- include keys
-- include record
-- include state_indexes
local now, q, named, surplus = clock(ARGV[1]), sound(queue_of(KEYS[1])), 0, 0

local function go(handle)
  local r = load_handle(q, handle)
  if not r then
    for _, set in ipairs({ 'succeeded', 'failed', 'cancelled', 'expiry' }) do call('ZREM', q[set], handle) end
    return
  end
  leave(q, r)
  forget(q, r)
end

for at = 4, #ARGV do
  local ends = call('ZSCORE', q.expiry, ARGV[at])
  if ends and tonumber(ends) <= now then
    go(ARGV[at])
    named = named + 1
  end
end
local many, most = tonumber(ARGV[2]), tonumber(ARGV[3])
if many > 0 then
  for _, handle in ipairs(call('ZREVRANGE', q.succeeded, most, most + many - 1)) do
    go(handle)
    surplus = surplus + 1
  end
end
for _, key in ipairs(call('ZRANGEBYSCORE', q.unique_ends, '-inf', now, 'LIMIT', 0, MOST)) do
  call('HDEL', q.unique, key)
  call('ZREM', q.unique_ends, key)
end
if has_index(q) and (tonumber(q.index) or 0) <= now then -- nobody has looked at pages for a while
  call('UNLINK', q.ids)
  call('HDEL', q.meta, 'index', 'scan')
end
return { named, surplus }
