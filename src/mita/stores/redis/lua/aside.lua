-- set_aside: jobs whose records cannot be read become failed ones. What cannot be read of them stays as it is.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 channel of the bell  then of each: id, handle ('' if nobody knows it), reason
-- include keys
-- include record
-- include state_indexes
-- include resource_keys
local now, q = clock(ARGV[1]), sound_lines(sound(queue_of(KEYS[1])))
for at = 3, #ARGV, 3 do
  local id, handle = ARGV[at], ARGV[at + 1]
  local r = load(q, id)
  if r and r.unreadable then
    set_aside(q, r, handle ~= '' and handle or r.handle, now, ARGV[at + 2])
  elseif r and not ENDED[r.state] then -- only the client cannot read it
    if call('HSETNX', q.error, id, ARGV[at + 2]) == 1 then r.extras = true end
    note(q, r, now, 'failed', ARGV[at + 2])
    finish(q, r, 'failed', KEPT, now)
  end
end
for _, key in ipairs(call('SMEMBERS', q.waited)) do wake(q, key, now, MOST) end
ring(ARGV[2])
return 0
