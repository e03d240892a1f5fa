-- resume: claim jobs of this queue again.
-- KEYS  1 root of the queue
-- ARGV  1 channel for wake-ups
-- include keys
-- include clock
-- include notify
local q = queue_of(KEYS[1])
if call('HDEL', q.meta, 'paused') == 1 then
  topics[q.name] = true
  notify(ARGV[1])
end
return 0
