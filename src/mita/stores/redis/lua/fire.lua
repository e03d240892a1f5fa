-- fire: each repeat that still stands at its cursor and revision is moved on, and its jobs are made in the same act.
-- KEYS  1 root of what is shared, then roots of the queues of the jobs
-- ARGV  1 now, '' to ask the server  2 channel of the bell  3 number of firings
--       then of each: key, cursor, revision, next ('' for none), fired, last ('' for none), state, reason,
--       parcel (jobs that cannot be made in this act, '' for none), number of jobs that can
--       then of each of those: meta, id, fixed half (see include/insert_jobs)
-- gives for each firing 1 when it won, 0 when somebody else fired, edited or paused the repeat
-- include keys
-- include record
-- include state_indexes
-- include insert_jobs
-- include repeats
local now, s, n = clock(ARGV[1]), shared_of(KEYS[1]), tonumber(ARGV[3])
local said, moved, parcels, kinds, items, from = {}, {}, {}, {}, {}, 4 + n * 10
for i = 1, n do
  local at = i * 10 - 6
  local key, cursor, jobs = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 9])
  local r = moved[key] or read_repeat(s, key)
  said[i] = 0
  if r and r.state == 'active' and r.cursor == tonumber(cursor) and r.revision == tonumber(ARGV[at + 2]) then
    said[i] = 1
    r.cursor, r.count = tonumber(ARGV[at + 3]) or false, r.count + tonumber(ARGV[at + 4])
    r.last = tonumber(ARGV[at + 5]) or r.last
    r.state, r.reason = ARGV[at + 6], ARGV[at + 7]
    moved[key] = r
    if ARGV[at + 8] ~= '' then parcels[key .. ' ' .. cursor] = ARGV[at + 8] end
    for j = from, from + jobs * 3 - 1, 3 do
      kinds[#kinds + 1], kinds[#kinds + 2] = 1, ARGV[j]
      items[#items + 1], items[#items + 2] = ARGV[j + 1], ARGV[j + 2]
    end
  end
  from = from + jobs * 3
end
local queues = {}
for i = 2, #KEYS do queues[i - 1] = queue_of(KEYS[i]) end
if #items > 0 then
  kinds.first, kinds.last, items.first = 1, #kinds, 1
  take_in(queues, s, kinds, items, now)
end
for name, parcel in pairs(parcels) do
  call('HSET', s.parcels, name, parcel)
  call('ZADD', s.promised, now, name)
end
for key, r in pairs(moved) do write_repeat(s, key, r) end
ring(ARGV[2])
return said
