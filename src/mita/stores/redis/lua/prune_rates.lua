-- prune_rates: delete a part of the rates that are full again and that no job waits for: nothing
-- stored means the same.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 where HSCAN begins
-- Returns where the next part begins, '0' after the last
-- include keys
-- include type_checks
-- include record
-- include gates
local RATES_PART = 500
local now, q = clock(ARGV[1]), check_types(queue_of(KEYS[1]))
local part = call('HSCAN', q.rates, ARGV[2], 'COUNT', RATES_PART)
for i = 1, #part[2], 2 do
  local key = part[2][i]
  local level = gates().level(q, key)
  local is_idle = not level or level[1] <= now * ONE_MS_US
  if is_idle and call('EXISTS', q.waiting .. key) == 0 then
    call('HDEL', q.rates, key)
    call('ZREM', q.wakes, key)
  end
end
if call('EXISTS', q.rates, q.wakes) == 0 then set_use(q, RATES, false) end
return part[1]
