-- count: one queue at one moment.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server
-- gives scheduled, ready, blocked, running, succeeded, failed, cancelled, oldest (false: none), paused (false: not)
-- include keys
-- include record
local now, q = clock(ARGV[1]), queue_of(KEYS[1])
local ready, all, first = 0, 0, now + 1
for priority = 0, 9 do
  all = all + call('ZCARD', q.due[priority])
  ready = ready + call('ZCOUNT', q.due[priority], '-inf', now)
  local head = call('ZRANGE', q.due[priority], 0, 0, 'WITHSCORES')
  if head[2] then first = math.min(first, tonumber(head[2])) end
end
local paused = call('HGET', q.meta, 'paused')
return {
  all - ready, ready, call('ZCARD', q.blocked), call('ZCARD', q.lease), call('ZCARD', q.succeeded), call('ZCARD', q.failed),
  call('ZCARD', q.cancelled), ready > 0 and now - first or false, paused and tonumber(paused) or false,
}
