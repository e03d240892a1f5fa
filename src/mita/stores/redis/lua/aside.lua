-- aside: end jobs as failed whose records cannot be read. Their bytes stay as they are.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 channel for wake-ups
--       then for each: id, handle ('' if it is not known), reason
-- include keys
-- include type_checks
-- include record
-- include resource_keys
local now, q = clock(ARGV[1]), check_used_types(queue_of(KEYS[1]))
for at = 3, #ARGV, 3 do
  local id, handle, why = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local r = load(q, id)
  if r and r.unreadable then
    set_aside(q, r, handle ~= '' and handle or r.handle, now, why)
  elseif r and not ENDED[r.state] then -- only the client cannot read it
    if call('HSETNX', q.error, id, why) == 1 then r.extras = true end
    note(q, r, now, TimelineKind.FAILED, why)
    finish(q, r, State.FAILED, SET_ASIDE_RETENTION_MS, now)
  end
end
for _, key in ipairs(call('SMEMBERS', q.waited)) do wake(q, key, now, CALL_ITEMS) end
if uses(q, LIMITED) then topics[q.name] = true end
enter_wakes(q, now)
notify(ARGV[2])
return 0
