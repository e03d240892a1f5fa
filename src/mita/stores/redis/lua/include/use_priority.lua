-- include priorities

-- Note that a queue uses this priority (see priorities).
local function use_priority(q, priority)
  local byte = priority_byte(priority)
  q.used = q.used or call('HGET', q.meta, 'lines') or ''
  if not q.used:find(byte, 1, true) then
    q.used, q.priorities = q.used .. byte, false
    call('HSET', q.meta, 'lines', q.used)
  end
end
