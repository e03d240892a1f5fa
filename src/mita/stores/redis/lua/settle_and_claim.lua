-- settle_and_claim: put claims down, then hand due jobs over.
-- KEYS  1..n roots of queues: first those to claim from, in their order, then others that settlements belong to
-- ARGV  1 now, '' to ask the server  2 channel of the bell  3 worker  4 lease  5 limit  6 number of queues to claim from
--       7 number of jobs that may still be looked at
--       8 name of the store that calls  9 number of this call, '' when there is nothing to put down
--       10 number of groups of settlements  11 how many of them are of the last kind
--       then of each group: number of its queue, kind, verdict, keep, number of tokens, each token and how many items are under
--       it, number of items, items
--       kinds: forgotten (id), kept (handle, result), each (id, token, verdict, '+' result or '')
-- gives now, positions of stale settlements, how many were claimed from each queue, the fixed halves of the claimed,
--       {position, live half, progress} of those that were touched before, after which wait there may be more (false:
--       never), how many were looked at, {queue, id, task, ended} of those that found their key taken
-- include keys
-- include record
-- include repeated_calls
-- include state_indexes
-- include resource_keys
-- include claim
-- include settle
local now, queues = clock(ARGV[1]), {}
for i, root in ipairs(KEYS) do
  local q = queue_of(root)
  queues[i], q.paused, q.used, q.index = q, unpack(call('HMGET', q.meta, 'paused', 'lines', 'index'))
  q.used = q.used or ''
  if ARGV[11] ~= '0' then sound_lines(sound(queues[i])) end
end

local number = ARGV[9] ~= '' and ARGV[9]
local calls = number and queues[1].calls .. ARGV[8]
local before = number and done_before(calls, number)
if before then return { now, before, {}, {}, {}, 0, 0, {} } end

local stale, at, passed = {}, 12, 0
for _ = 1, tonumber(ARGV[10]) do
  local q, kind, verdict, keep = queues[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local tokens, from, late, width = at + 5, at + 6 + 2 * ARGV[at + 4], nil, 1
  local n = tonumber(ARGV[from - 1])
  if kind == 'forgotten' then
    late = settle_forgotten(q, tokens, from, n, verdict, now)
  elseif kind == 'kept' then
    late, width = settle_kept(q, tokens, from, n, verdict, keep, now), 2
  else
    late, width = settle_each(q, from, n, now), 4
  end
  for _, i in ipairs(late) do stale[#stale + 1] = passed + i end
  passed, at = passed + n, from + n * width
end

local limit = tonumber(ARGV[5])
local t = {
  now = now, worker = ARGV[3], lease = plain(now + tonumber(ARGV[4])), left = limit, looked = MOST - tonumber(ARGV[7]),
  fixed = {}, touched = {}, moment = plain(now), limit = limit,
}
local first = untouched()
first.state, first.token, first.worker, first.started = 'running', now, t.worker, now
t.first = pack_live(first)

local going, shares = {}, {}
for i = 1, tonumber(ARGV[6]) do
  local q = queues[i]
  if not q.paused then
    going[#going + 1] = i
    q.has_holds = call('ZCARD', q.holds) > 0
    if q.has_holds then end_holds(q, now) end
    look_at_lines(q)
  end
  shares[i] = 0
end
for _, i in ipairs(going) do
  local before = #t.fixed
  claim(queues[i], t)
  shares[i] = #t.fixed - before
end

local again = false
if limit > 0 and t.left == 0 then
  again = 0
else
  for _, i in ipairs(going) do
    local soonest = next_moment(queues[i])
    if soonest then again = math.min(again or math.huge, math.max(0, soonest - now)) end
  end
end
end_turn()
if number then remember_call(calls, number, stale) end
ring(ARGV[2])
return { now, stale, shares, t.fixed, t.touched, again, t.looked, busy }
