-- record_audit: add entries to the audit log, unless they are there; delete the oldest.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock  2 how many entries are kept  3 how long (ms)
--       then for each entry: id, who, what, target, packed entry
-- include keys
-- include clock
local now, s = clock(ARGV[1]), namespace_of(KEYS[1])
for at = 4, #ARGV, 5 do
  local id, who, what, target, entry = unpack(ARGV, at, at + 4)
  local head = string.format('%.0f,%d,%d,%d:', now, #who, #what, #target)
  if call('HSETNX', s.audit_entries, id, head .. who .. what .. target .. entry) == 1 then
    call('ZADD', s.audit, 0, id)
  end
end

local function delete(id)
  call('ZREM', s.audit, id)
  call('HDEL', s.audit_entries, id)
end

local surplus = call('ZCARD', s.audit) - tonumber(ARGV[2])
if surplus > 0 then
  for _, id in ipairs(call('ZRANGE', s.audit, 0, math.min(surplus, CALL_ITEMS) - 1)) do
    delete(id)
  end
end
for _, id in ipairs(call('ZRANGE', s.audit, 0, CALL_ITEMS - 1)) do
  local entry = call('HGET', s.audit_entries, id)
  if entry and (tonumber(entry:match('^%d+')) or now) > now - tonumber(ARGV[3]) then break end
  delete(id)
end
call('PEXPIRE', s.audit, ARGV[3])
call('PEXPIRE', s.audit_entries, ARGV[3])
return 0
