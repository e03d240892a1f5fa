-- extend: keep claims for longer.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 lease  then id and token of each claim
-- Returns a `Held` for each
-- include keys
-- include type_checks
-- include record
local now, q, answers, alone = clock(ARGV[1]), check_types(queue_of(KEYS[1])), {}, {}
local ends, ids, batches, seen = now + tonumber(ARGV[2]), {}, {}, {}
for at = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[at] end
local lives = call('HMGET', q.live, unpack(ids))

for i, live in ipairs(lives) do
  local id, batch = ids[i], live and is_batch(live)
  local r = live and live_of(q, live, batch and live)
  local holds = has_token(r, ARGV[i * 2 + 2])
  answers[i] = Held.HELD
  if not holds then
    answers[i] = Held.LOST
  elseif r.asked == Asked.CANCEL then
    answers[i] = Held.CANCEL
  end
  -- a job that is named twice must not count for another job of its batch
  if holds and not seen[id] then
    if batch then
      batches[live] = batches[live] or {}
      table.insert(batches[live], id)
    else
      alone[#alone + 1] = id
    end
    seen[id] = true
  end
end

-- A batch of which all jobs are named keeps its common lease. Of another batch, the named jobs get
-- leases of their own.
for batch, held in pairs(batches) do
  if #held == tonumber(call('HGET', q.left, batch) or 0) then
    call('ZADD', q.lease, 'XX', ends, batch)
  else
    for _, id in ipairs(held) do
      save(q, load(q, id))
      alone[#alone + 1] = id
    end
  end
end
if #alone > 0 then
  local leases = {}
  for i, fixed in ipairs(call('HMGET', q.jobs, unpack(alone))) do
    leases[i * 2 - 1], leases[i * 2] = ends, handle_of(alone[i], fixed or '')
  end
  call('ZADD', q.lease, 'XX', unpack(leases))
end
return answers
