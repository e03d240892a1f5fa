-- audit_page: some entries of the audit log, newest id first.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock  2 ids below this; '' for all  3 how many
-- Returns now, then for each: id, its time in 15 digits and the packed entry
-- include keys
-- include clock
local now, s = clock(ARGV[1]), namespace_of(KEYS[1])
local below = ARGV[2] == '' and '+' or '(' .. ARGV[2]
local rows = { now }
for _, id in ipairs(call('ZREVRANGEBYLEX', s.audit, below, '-', 'LIMIT', 0, ARGV[3])) do
  rows[#rows + 1] = id
  rows[#rows + 1] = call('HGET', s.audit_entries, id) or ''
end
return rows
