-- prune_shared: delete once values for all jobs, workers and locks whose time is over.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock
-- include keys
-- include clock
local now, s = clock(ARGV[1]), namespace_of(KEYS[1])
local values_of = {
  [s.shared_once_ends] = s.shared_once, [s.heartbeat_ends] = s.workers, [s.lock_ends] = s.locks,
}
for ends, values in pairs(values_of) do
  for _, name in ipairs(call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, CALL_ITEMS)) do
    call('HDEL', values, name)
    call('ZREM', ends, name)
    if values == s.workers then call('HDEL', s.seen, name) end
  end
end
return 0
