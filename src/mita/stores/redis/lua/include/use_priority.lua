-- include priorities

-- Note that a queue uses this priority (see priorities).
local function use_priority(q, priority)
  if not used_priorities(q):find(priority, 1, true) then
    q.used = q.used .. priority
    call('HSET', q.meta, 'lines', q.used)
  end
end
