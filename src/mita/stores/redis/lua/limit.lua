-- limit: set or remove the limit of a queue, or of a key in it.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 channel for wake-ups
--       3 '+' and the key, '' for the queue itself
--       4 the limit as {concurrency, interval, burst} in MessagePack, '' to remove it
-- include keys
-- include type_checks
-- include record
-- include resource_keys
local now, q = clock(ARGV[1]), check_used_types(queue_of(KEYS[1]))
if not q.flow_types_checked then check_flow_types(q) end
local key, packed = ARGV[3]:sub(2), ARGV[4] ~= '' and ARGV[4]

local function limit_key()
  if packed then call('HSET', q.limits, key, packed) else call('HDEL', q.limits, key) end
  set_use(q, KEY_LIMITS, call('EXISTS', q.limits) > 0)
  local level = gates().level(q, key)
  if level then -- jobs that were woken under the old limit are counted by the new one
    local gate = { key = key, interval = level[3], burst = level[4] }
    gates().set_level(q, gate, level[1], level[1])
  end
  wake(q, key, now, CALL_ITEMS)
end

local function limit_queue()
  local _, level = gates().queue_limit(q)
  local limit = packed and gates().read_limit(packed)
  if packed then call('HSET', q.meta, 'limit', packed) else call('HDEL', q.meta, 'limit') end
  if level and limit and limit.interval > 0 then
    call('HSET', q.meta, 'level', plain(gates().bounded_level(limit, level, now)))
  else
    call('HDEL', q.meta, 'level')
  end
  set_use(q, LIMITED, packed and true or false)
end

if ARGV[3] == '' then limit_queue() else limit_key() end
topics[q.name] = true
enter_wakes(q, now)
notify(ARGV[2])
return 0
