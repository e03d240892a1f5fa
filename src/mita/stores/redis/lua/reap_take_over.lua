-- inherit: take over running jobs whose lease is over, under a new token.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 lease  3 worker  then handles
-- gives now, and {fixed half, live half, progress, worker that lost it} of each, or false for one that somebody else has now
-- include keys
-- include record
-- include state_indexes
local now, q, said = clock(ARGV[1]), sound(queue_of(KEYS[1])), {}
for at = 4, #ARGV do
  local handle = ARGV[at]
  local ends = call('ZSCORE', q.lease, handle)
  local over = ends and tonumber(ends) <= now
  local r = over and load_handle(q, handle)
  if over and not r then call('ZREM', q.lease, handle) end -- a lease of no job
  if r and r.unreadable then
    set_aside(q, r, handle, now)
    said[at - 3] = false
  elseif r then
    local before = type(r.worker) == 'string' and r.worker or ''
    r.token, r.worker = next_token(r.token, now), ARGV[3]
    save(q, r)
    call('ZADD', q.lease, now + tonumber(ARGV[2]), handle)
    said[at - 3] = { r.fixed, pack_live(r), call('HGET', q.progress, r.id), before }
  else
    said[at - 3] = false
  end
end
return { now, said }
