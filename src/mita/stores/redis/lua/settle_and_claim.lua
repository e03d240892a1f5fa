-- settle_and_claim: settle claims, then claim due jobs. Also the script of settle and of claim.
-- KEYS  1..n roots of queues: first those to claim from, in their order, then others that
--       settlements belong to
-- ARGV  1 now, '' to read the server's clock  2 channel for wake-ups  3 worker  4 lease  5 limit
--       6 number of queues to claim from  7 number of jobs that may be looked at
--       8 name of the calling store  9 number of this call, '' without settlements
--       10 ageing, '' if priorities are strict
--       11 number of groups of settlements  12 how many of these are not of the first two
--       kinds
--       then for each group: number of its queue, kind, verdict, keep, number of tokens, each token
--       and the number of its items, number of items, items
--       kinds: forgotten (id), kept (handle, result), each (id, token, verdict, '+' result or ''),
--       back (handle, delay or point in time, note, error, failure)
-- Returns now, positions of stale settlements, how many jobs were claimed from each queue, their
--       fixed parts, {position, live part, progress} of those that were touched before, the delay
--       after which there may be more (false: never), how many jobs were looked at,
--       {queue, id, task, ended, at a rate} of the jobs that could not pass a gate
-- include keys
-- include live
-- include repeated_calls
-- include priorities
-- include id_index
-- include notify
-- include flow
local rare
-- include claim
-- include settle

-- What only some calls need. The server makes functions anew at every call, and those of a call
-- with a few plain jobs cost more than its commands: so these are made when one is needed.
local made_rare
rare = function()
  if made_rare then return made_rare end
-- include type_checks
-- include record
-- include resource_keys
-- include start_one
-- include restart
-- include keyed_starts
-- include settle_one
-- include settle_back
-- include keyed_ends
-- include ranked_claim
  made_rare = {
    start_or_block = start_or_block, restart = restart, read_progress = read_progress,
    settle_one = settle_one, settle_each = settle_each, settle_back = settle_back,
    settle_keyed = settle_keyed, start_keyed = start_keyed, write_keys = write_keys,
    new_key_writes = new_key_writes,
    end_holds = end_holds, open_rates = open_rates, enter_wakes = enter_wakes, gates = gates,
    ranked = ranked, busy = busy, check_types = check_types, check_used_types = check_used_types,
    check_flow_types = check_flow_types, check_group_types = check_group_types,
  }
  return made_rare
end

local now, queues = clock(ARGV[1]), {}
for i, root in ipairs(KEYS) do
  local q = queue_of(root)
  local meta = call('HMGET', q.meta, 'paused', 'lines', 'index', 'flow')
  queues[i], q.paused, q.used, q.index, q.flow = q, meta[1], meta[2] or '', meta[3], meta[4] or ''
  if ARGV[12] ~= '0' then rare().check_used_types(q) end
end

local number = ARGV[9] ~= '' and ARGV[9]
local calls = number and queues[1].calls .. ARGV[8]
local before = number and answer_before(calls, number)
if before then return { now, before, {}, {}, {}, 0, 0, {} } end

local stale, at, passed = {}, 13, 0
for _ = 1, tonumber(ARGV[11]) do
  local q, kind, verdict = queues[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2]
  local keep, tokens, from = tonumber(ARGV[at + 3]), at + 5, at + 6 + 2 * ARGV[at + 4]
  local n, late, width = tonumber(ARGV[from - 1]), nil, 1
  if kind == 'forgotten' then
    late = settle_forgotten(q, tokens, from, n, verdict, now)
  elseif kind == 'kept' then
    late, width = settle_kept(q, tokens, from, n, verdict, keep, now), 2
  elseif kind == 'back' then
    late, width = rare().settle_back(q, tokens, from, n, verdict, now), 5
  elseif kind == 'keyed' then
    late, width = rare().settle_keyed(q, tokens, from, n, verdict, now), 2
  else
    late, width = rare().settle_each(q, from, n, now), 4
  end
  for _, i in ipairs(late) do stale[#stale + 1] = passed + i end
  passed, at = passed + n, from + n * width
end

local limit = tonumber(ARGV[5])
local c = {
  now = now, worker = ARGV[3], lease = plain(now + tonumber(ARGV[4])), moment = plain(now),
  limit = limit, left = limit, looked_at = CALL_ITEMS - tonumber(ARGV[7]), fixed = {}, touched = {},
  unread = {}, unread_ids = {}, turned_away = 0,
  ageing = tonumber(ARGV[10]),
}
local first = untouched()
first.state, first.token, first.worker, first.started = State.RUNNING, now, c.worker, now
c.first_live = pack_live(first)

local open, claimed = {}, {}
for i = 1, tonumber(ARGV[6]) do
  local q = queues[i]
  if not q.paused then
    open[#open + 1] = i
    q.has_holds = call('ZCARD', q.holds) > 0
    if q.has_holds then rare().end_holds(q, now) end
    if uses(q, RATES) and call('ZCOUNT', q.wakes, '-inf', c.moment) > 0 then
      rare().open_rates(q, now)
    end
    if uses(q, LIMITED) then
      run_deletes() -- runs that have ended just now are not counted
      q.places = rare().gates().places_in(q, now)
    end
    read_first_due(q)
  end
  claimed[i] = 0
end
for _, i in ipairs(open) do
  local claimed_before = #c.fixed
  claim(queues[i], c)
  claimed[i] = #c.fixed - claimed_before
  if queues[i].places then rare().gates().count_starts(queues[i], now, claimed[i]) end
end
for _, q in ipairs(queues) do
  if q.touched_keys then rare().enter_wakes(q, now) end
end

local again = false
if limit > 0 and c.left == 0 then
  again = 0
else
  for _, i in ipairs(open) do
    local soonest = next_claim_at(queues[i], now)
    if soonest then again = math.min(again or math.huge, math.max(0, soonest - now)) end
  end
end
run_deletes()
if number then remember_call(calls, number, stale) end
notify(ARGV[2])
local busy = made_rare and made_rare.busy or {}
return { now, stale, claimed, c.fixed, c.touched, again, c.looked_at, busy }
