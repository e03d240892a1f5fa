-- resume: this queue is served again.
-- KEYS  1 root of the queue
-- ARGV  1 channel of the bell
-- include keys
-- include record
local q = queue_of(KEYS[1])
if call('HDEL', q.meta, 'paused') == 1 then
  rung[q.name] = true
  ring(ARGV[1])
end
return 0
