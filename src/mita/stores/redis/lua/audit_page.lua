-- audit_page: some entries of the audit log that match, newest id first.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock  2 ids below this; '' for all  3 how many
--       4 who  5 what  6 a part of the target; each '' for any, else '+' and the text
-- Returns now, the id up to which it has looked ('' at the end of the log), then for each entry:
-- id, time, packed entry
-- include keys
-- include clock
local READ_ENTRIES = 250 -- at once
local MOST_READS = 20 -- in one call
local now, s = clock(ARGV[1]), namespace_of(KEYS[1])
local wanted, who, what, target = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local rows, found, last = { now, '' }, 0, ARGV[2]

-- The time and the packed entry if it matches. One that cannot be read matches if all do.
local function matching(entry)
  local at, whos, whats, targets, from = entry:match('^(%d+),(%d+),(%d+),(%d+):()')
  if not at then return who .. what .. target == '' and 0, entry end
  local a, b, c = from + whos, from + whos + whats, from + whos + whats + targets
  if who ~= '' and entry:sub(from, a - 1) ~= who:sub(2) then return end
  if what ~= '' and entry:sub(a, b - 1) ~= what:sub(2) then return end
  if target ~= '' and not entry:sub(b, c - 1):find(target:sub(2), 1, true) then return end
  return tonumber(at), entry:sub(c)
end

for _ = 1, MOST_READS do
  local below = last == '' and '+' or '(' .. last
  local ids = call('ZREVRANGEBYLEX', s.audit, below, '-', 'LIMIT', 0, READ_ENTRIES)
  if #ids == 0 then return rows end
  local entries = call('HMGET', s.audit_entries, unpack(ids))
  for at, id in ipairs(ids) do
    local moment, entry = matching(entries[at] or '')
    last = id
    if moment then
      found = found + 1
      rows[#rows + 1], rows[#rows + 2], rows[#rows + 3] = id, moment, entry
      if found == wanted then return rows end
    end
  end
  if #ids < READ_ENTRIES then return rows end
end
rows[2] = last
return rows
