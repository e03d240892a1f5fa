-- resources: the keys that a job has or waits for, or that are on hold or limited.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 key, '' for all
-- Returns for each: key, number of waiting jobs, end of the hold (false: none), {id, worker, since
--       when} of the jobs that have it, its limit (false: none), {interval, burst, next start} of
--       its rate (false: none)
-- include keys
-- include record
-- include gates
local now, q, rows, keys = clock(ARGV[1]), queue_of(KEYS[1]), {}, {}
for _, key in ipairs(call('SMEMBERS', q.held)) do keys[key] = true end
for _, key in ipairs(call('SMEMBERS', q.waited)) do keys[key] = true end
for _, key in ipairs(call('ZRANGEBYSCORE', q.holds, '(' .. now, '+inf')) do keys[key] = true end
for _, key in ipairs(call('HKEYS', q.limits)) do keys[key] = true end

local function rate_of(key)
  local level = gates().level(q, key)
  if not level then return false end
  local rate = { interval = level[3], burst = level[4] }
  local next_at = level[3] > 0 and gates().next_token_at(rate, level[1], now) or now
  return { level[3], level[4], next_at > now and next_at }
end

for key in pairs(keys) do
  if ARGV[2] == '' or ARGV[2] == key then
    local holders, ends = {}, tonumber(call('ZSCORE', q.holds, key) or 0)
    local handles = call('SMEMBERS', q.holders .. key)
    table.sort(handles)
    for _, handle in ipairs(handles) do
      local r = load_handle(q, handle)
      if r then holders[#holders + 1] = { r.id, r.worker, r.started } end
    end
    rows[#rows + 1] = {
      key, call('ZCARD', q.waiting .. key), ends > now and ends, holders,
      call('HGET', q.limits, key), rate_of(key),
    }
  end
end
return rows
