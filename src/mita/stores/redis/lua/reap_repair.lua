-- reap_repair: end holds that are over, free the keys of jobs that do not run, and wake jobs that
-- wait for a free key. Every script leaves its keys in order; this helps if something was lost.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 channel for wake-ups
-- include keys
-- include record
-- include resource_keys
local HELD_KEYS = 100 -- keys that no job waits for: each sweep looks at other ones
local now, q = clock(ARGV[1]), check_all_types(queue_of(KEYS[1]))

local function free_stale_holders(key)
  local holders = q.holders .. key
  for _, handle in ipairs(call('SMEMBERS', holders)) do
    local r = load_handle(q, handle)
    local holds = r and r.handle == handle and r.state == State.RUNNING and r.resource == key
    if not holds then call('SREM', holders, handle) end
  end
  if call('EXISTS', holders) == 0 then call('SREM', q.held, key) end
end

for priority = LOWEST_PRIORITY, HIGHEST_PRIORITY do -- the list of used ones may be unreadable
  local listed = call('LLEN', ready_of(q, priority))
  if listed > 0 or call('ZCARD', due_of(q, priority)) > 0 then use_priority(q, priority) end
end
end_holds(q, now)
for _, key in ipairs(call('SRANDMEMBER', q.held, HELD_KEYS)) do free_stale_holders(key) end
for _, key in ipairs(call('SMEMBERS', q.waited)) do
  free_stale_holders(key)
  wake(q, key, now, CALL_ITEMS)
end
notify(ARGV[2])
return 0
