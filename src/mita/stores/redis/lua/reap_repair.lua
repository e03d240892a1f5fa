-- mend: end the holds that have run out, free the keys of jobs that do not run, and wake who waits for a key that is free.
-- All that is only the net under a wake-up that was lost: every script leaves its keys in order.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 channel of the bell
-- include keys
-- include record
-- include state_indexes
-- include resource_keys
local SOME = 100 -- of the keys that no job waits for: each sweep looks at others
local now, q = clock(ARGV[1]), sound_lines(sound(queue_of(KEYS[1])))

local function free(key)
  local holders = q.holders .. key
  for _, handle in ipairs(call('SMEMBERS', holders)) do
    local r = load_handle(q, handle)
    if not r or r.handle ~= handle or r.state ~= 'running' or r.resource ~= key then call('SREM', holders, handle) end
  end
  if call('EXISTS', holders) == 0 then call('SREM', q.held, key) end
end

for priority = 0, 9 do -- which of them are used may have become unreadable
  local used = call('LLEN', ready_of(q, priority)) > 0 or call('ZCARD', due_of(q, priority)) > 0
  if used then use_line(q, priority) end
end
end_holds(q, now)
for _, key in ipairs(call('SRANDMEMBER', q.held, SOME)) do free(key) end
for _, key in ipairs(call('SMEMBERS', q.waited)) do
  free(key)
  wake(q, key, now, MOST)
end
ring(ARGV[2])
return 0
