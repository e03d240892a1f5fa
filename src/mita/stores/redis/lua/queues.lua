-- count: one queue at one moment.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server
-- gives scheduled, ready, blocked, running, succeeded, failed, cancelled, oldest (false: none), paused (false: not)
-- include keys
-- include record
local now, q = clock(ARGV[1]), queue_of(KEYS[1])
local ready, all, first = 0, 0, now + 1

-- When the first in a list that is still there came.
local function oldest_listed(priority)
  local start, handles = 0, nil
  repeat
    handles = call('LRANGE', ready_of(q, priority), start, start + 99)
    for _, handle in ipairs(handles) do
      local r = load_handle(q, handle)
      if r and not r.unreadable and not r.touched and r.handle == handle then return r.due end
    end
    start = start + 100
  until #handles == 0
  return now + 1
end

for priority = 0, 9 do
  local due = due_of(q, priority)
  local listed = call('LLEN', ready_of(q, priority))
  if listed > 0 then
    listed = listed - (tonumber(call('HGET', q.meta, 'gone:' .. priority) or 0) or 0)
    first = math.min(first, oldest_listed(priority))
  end
  all = all + call('ZCARD', due) + listed
  ready = ready + call('ZCOUNT', due, '-inf', now) + listed
  local head = call('ZRANGE', due, 0, 0, 'WITHSCORES')
  if head[2] then first = math.min(first, tonumber(head[2])) end
end
local running = call('ZCARD', q.lease)
for _, left in ipairs(call('HVALS', q.left)) do running = running + (tonumber(left) or 1) - 1 end
local paused = call('HGET', q.meta, 'paused')
return {
  all - ready, ready, call('ZCARD', q.blocked), running, call('ZCARD', q.succeeded), call('ZCARD', q.failed),
  call('ZCARD', q.cancelled), ready > 0 and now - first or false, paused and (tonumber(paused) or 0),
}
