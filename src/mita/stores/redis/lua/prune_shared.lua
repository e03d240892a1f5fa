-- prune_shared: forget the memos for all jobs, the workers and the locks whose time is over.
-- KEYS  1 root of what is shared
-- ARGV  1 now, '' to ask the server
-- include keys
-- include record
local now, s = clock(ARGV[1]), shared_of(KEYS[1])
for ends, values in pairs({ [s.shared_ends] = s.shared, [s.beats] = s.workers, [s.lock_ends] = s.locks }) do
  for _, name in ipairs(call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, MOST)) do
    call('HDEL', values, name)
    call('ZREM', ends, name)
    if values == s.workers then call('HDEL', s.seen, name) end
  end
end
return 0
