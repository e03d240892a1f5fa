-- queues: the counts of one queue.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock
-- Returns waiting, scheduled, ready, blocked, running, succeeded, failed, cancelled, how long the
--       oldest ready job has been ready (false: there is none), since when it is paused (false: it
--       is not), its limit (false: none), how many starts its rate allows now (false: it has none),
--       when it allows the next start (false: now)
-- include keys
-- include record
-- include priorities
-- include shares
-- include next_due
-- include gates
local LIST_PART_JOBS = 100
local now, q = clock(ARGV[1]), queue_of(KEYS[1])
local waiting, ready, all, oldest = 0, 0, 0, now + 1

-- When the first job of a list came that is not only marked as removed.
local function first_listed(priority)
  local start, handles = 0, nil
  repeat
    handles = call('LRANGE', ready_of(q, priority), start, start + LIST_PART_JOBS - 1)
    for _, handle in ipairs(handles) do
      local r = load_handle(q, handle)
      if r and not r.unreadable and not r.touched and r.handle == handle then return r.due end
    end
    start = start + LIST_PART_JOBS
  until #handles == 0
  return now + 1
end

for _, priority in ipairs(used_priorities(q)) do
  local due = due_of(q, priority)
  local listed = call('LLEN', ready_of(q, priority))
  if listed > 0 then
    listed = listed - removed_from_list(q, priority)
    oldest = math.min(oldest, first_listed(priority))
  end
  all = all + call('ZCARD', due) + listed
  ready = ready + call('ZCOUNT', due, '-inf', now) + listed
  waiting = waiting + call('ZCOUNT', due, LATEST, LATEST)
  if uses(q, GROUPS) then
    local queued, is_due, waits = shares().count(q, priority, now)
    all, ready, waiting = all + queued, ready + is_due, waiting + waits
    oldest = math.min(oldest, first_due_of_groups(q, priority))
  end
  local head = call('ZRANGE', due, 0, 0, 'WITHSCORES')
  if head[2] then oldest = math.min(oldest, tonumber(head[2])) end
end
local running = gates().running(q)
local paused, next_start, tokens = call('HGET', q.meta, 'paused'), now, false
local limit, level = gates().queue_limit(q)
if limit and limit.interval > 0 then
  next_start = gates().next_token_at(limit, level, now)
  tokens = gates().tokens(limit, level, now)
end
return {
  waiting, all - ready - waiting, ready, call('ZCARD', q.blocked), running,
  call('ZCARD', q.succeeded), call('ZCARD', q.failed), call('ZCARD', q.cancelled),
  ready > 0 and now - oldest or false,
  paused and (tonumber(paused) or 0), call('HGET', q.meta, 'limit'),
  tokens, next_start > now and next_start,
}
