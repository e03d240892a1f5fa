-- fire: move on each repeat that still has its cursor and revision, and insert its jobs in the same
-- atomic step.
-- KEYS  1 root of the namespace, then roots of the queues of the jobs
-- ARGV  1 now, '' to read the server's clock  2 channel for wake-ups  3 number of firings
--       then for each: key, cursor, revision, next ('' for none), fired, last ('' for none), state,
--       reason, jobs that cannot be inserted here ('' for none; on a cluster), number of jobs
--       then for each of those: kind, id, client's fields (see include/insert_jobs)
-- Returns 1 for each firing that was applied, 0 if the repeat was fired, edited or paused meanwhile
-- include keys
-- include clock
-- include insert_jobs
-- include repeats
local FIRING_ARGS = 10
local JOB_ARGS = 3
local now, s, n = clock(ARGV[1]), namespace_of(KEYS[1]), tonumber(ARGV[3])
local applied, moved, undelivered, kinds, items = {}, {}, {}, {}, { first = 1 }
local from = 4 + n * FIRING_ARGS
for i = 1, n do
  local at = 4 + (i - 1) * FIRING_ARGS
  local key, cursor, jobs = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 9])
  local r = moved[key] or read_repeat(s, key)
  local same = r and r.cursor == tonumber(cursor) and r.revision == tonumber(ARGV[at + 2])
  applied[i] = 0
  if same and r.state == RepeatState.ACTIVE then
    applied[i] = 1
    r.cursor, r.count = tonumber(ARGV[at + 3]) or false, r.count + tonumber(ARGV[at + 4])
    r.last = tonumber(ARGV[at + 5]) or r.last
    r.state, r.reason = ARGV[at + 6], ARGV[at + 7]
    moved[key] = r
    if ARGV[at + 8] ~= '' then undelivered[key .. ' ' .. cursor] = ARGV[at + 8] end
    for j = from, from + jobs * JOB_ARGS - 1, JOB_ARGS do
      kinds[#kinds + 1], kinds[#kinds + 2] = 1, ARGV[j]
      items[#items + 1], items[#items + 2] = ARGV[j + 1], ARGV[j + 2]
    end
  end
  from = from + jobs * JOB_ARGS
end
local queues = {}
for i = 2, #KEYS do queues[i - 1] = queue_of(KEYS[i]) end
if #items > 0 then insert_jobs(queues, s, kinds, items, now) end
for name, jobs in pairs(undelivered) do
  call('HSET', s.undelivered, name, jobs)
  call('ZADD', s.undelivered_since, now, name)
end
for key, r in pairs(moved) do write_repeat(s, key, r) end
enter_wakes_of(queues, now)
notify(ARGV[2])
return applied
