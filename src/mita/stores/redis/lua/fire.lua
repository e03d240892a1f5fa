-- fire: if a repeat still stands at this cursor and revision, move it on, and make its jobs in the same act.
-- KEYS  1 root of what is shared, then roots of the queues of the jobs
-- ARGV  1 now, '' to ask the server  2 channel of the bell  3 key  4 cursor  5 revision  6 next, '' for none  7 fired
--       8 last, '' for none  9 state  10 reason  11 parcel: jobs that cannot be made in this act, '' for none
--       12 number of jobs that can, then of each: meta, id, the packed rest (see include/intake)
-- gives 1 when it won, 0 when somebody else fired, edited or paused it
-- include keys
-- include record
-- include places
-- include intake
-- include repeating
local now, s, key = clock(ARGV[1]), shared_of(KEYS[1]), ARGV[3]
local r = read_repeat(s, key)
if not r or r.state ~= 'active' or r.cursor ~= tonumber(ARGV[4]) or r.revision ~= tonumber(ARGV[5]) then return 0 end
local queues = {}
for i = 2, #KEYS do queues[i - 1] = queue_of(KEYS[i]) end
if #queues > 0 then take_in(queues, s, 13, tonumber(ARGV[12]), now) end
if ARGV[11] ~= '' then
  local name = key .. ' ' .. ARGV[4]
  call('HSET', s.parcels, name, ARGV[11])
  call('ZADD', s.promised, now, name)
end
r.cursor, r.count = tonumber(ARGV[6]) or false, r.count + tonumber(ARGV[7])
r.last = tonumber(ARGV[8]) or r.last
r.state, r.reason = ARGV[9], ARGV[10]
write_repeat(s, key, r)
ring(ARGV[2])
return 1
