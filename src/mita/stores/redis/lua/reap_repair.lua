-- reap_repair: end holds that are over, free the keys of jobs that do not run, and wake jobs that
-- wait for a free key. Every script leaves its keys in order; this helps if something was lost.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 channel for wake-ups
-- include keys
-- include type_checks
-- include record
-- include resource_keys
local HELD_KEYS = 100 -- keys that running jobs have: each sweep looks at other ones
local now, q = clock(ARGV[1]), check_used_types(queue_of(KEYS[1]))

local function free_stale_holders(key)
  local holders = q.holders .. key
  for _, handle in ipairs(call('SMEMBERS', holders)) do
    local r = load_handle(q, handle)
    local holds = false
    if r and r.handle == handle and r.state == State.RUNNING then
      for _, its_key in ipairs(keys_of(r)) do holds = holds or its_key == key end
    end
    if not holds then call('SREM', holders, handle) end
  end
  if call('EXISTS', holders) == 0 then call('SREM', q.held, key) end
end

-- Whether all jobs of the queue are found with the priorities that it is known to use. In a queue
-- with groups they are not counted, because that needs a command for each group.
local function has_all_priorities()
  if uses(q, GROUPS) then return false end
  local found = gates().running(q)
  for _, state in ipairs({ 'blocked', 'succeeded', 'failed', 'cancelled' }) do
    found = found + call('ZCARD', q[state])
  end
  for _, priority in ipairs(used_priorities(q)) do
    local listed = call('LLEN', ready_of(q, priority)) - removed_from_list(q, priority)
    found = found + listed + call('ZCARD', due_of(q, priority))
  end
  return found >= call('HLEN', q.jobs)
end

-- Look at every priority: the list of used ones may be lost or unreadable.
local function find_priorities()
  for priority = LOWEST_PRIORITY, HIGHEST_PRIORITY do
    local groups = call('EXISTS', q.groups_next .. priority, q.groups_later .. priority)
    if groups > 0 then set_use(q, GROUPS, true) end
    if groups > 0 or call('EXISTS', ready_of(q, priority), due_of(q, priority)) > 0 then
      check_types_of(q, priority)
      use_priority(q, priority)
    end
  end
end

if not has_all_priorities() then find_priorities() end
set_use(q, RATES, call('EXISTS', q.rates, q.wakes) > 0)
set_use(q, KEY_LIMITS, call('EXISTS', q.limits) > 0)
set_use(q, LIMITED, call('HEXISTS', q.meta, 'limit') > 0)
end_holds(q, now)
if uses(q, RATES) then open_rates(q, now) end
for _, key in ipairs(call('SRANDMEMBER', q.held, HELD_KEYS)) do free_stale_holders(key) end
for _, key in ipairs(call('SRANDMEMBER', q.waited, CALL_ITEMS)) do -- so many in each sweep
  free_stale_holders(key)
  wake(q, key, now, CALL_ITEMS)
end
enter_wakes(q, now)
notify(ARGV[2])
return 0
