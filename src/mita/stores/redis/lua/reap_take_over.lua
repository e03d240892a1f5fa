-- reap_take_over: take over running jobs whose lease is over, under a new token.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 lease  3 worker  then handles
-- Returns now, and {fixed part, live part, progress, worker that lost it} of each, or false for a
--       job that another worker has taken over
-- include keys
-- include type_checks
-- include record
-- include state_indexes
local now, q, rows = clock(ARGV[1]), check_types(queue_of(KEYS[1])), {}
for at = 4, #ARGV do
  local handle, row = ARGV[at], false
  local ends = call('ZSCORE', q.lease, handle)
  local over = ends and tonumber(ends) <= now
  local r = over and load_handle(q, handle)
  if over and not r then
    call('ZREM', q.lease, handle) -- there is no such job
  elseif r and r.unreadable then
    set_aside(q, r, handle, now)
  elseif r then
    local lost = type(r.worker) == 'string' and r.worker or ''
    r.token, r.worker = next_token(r.token, now), ARGV[3]
    save(q, r)
    call('ZADD', q.lease, now + tonumber(ARGV[2]), handle)
    row = { r.fixed, pack_live(r), call('HGET', q.progress, r.id), lost }
  end
  rows[at - 3] = row
end
return { now, rows }
