-- dead_groups: a part of the groups of failed jobs of one queue.
-- KEYS  1 root of the queue
-- ARGV  1 where this part begins, '0' for the first
-- Returns where the next part begins ('0': this was the last), how many jobs of the queue have
--       failed, and for each group {group, count, when its first and its last job failed, the id
--       and the task of one that failed last}
-- include keys
-- include record
local q, rows = queue_of(KEYS[1]), {}
local part = call('SSCAN', q.dead_groups, ARGV[1], 'COUNT', CALL_ITEMS)
for _, group in ipairs(part[2]) do
  local set = q.dead .. group
  local first = call('ZRANGE', set, 0, 0, 'WITHSCORES')
  local last = call('ZRANGE', set, -1, -1, 'WITHSCORES')
  if last[1] then
    local r = load_handle(q, last[1])
    rows[#rows + 1] = {
      group, call('ZCARD', set), first[2], last[2], last[1]:sub(ID_AT), r and r.task or '',
    }
  end
end
return { part[1], call('ZCARD', q.failed), rows }
