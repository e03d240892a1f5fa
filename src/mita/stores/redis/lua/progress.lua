-- progress: store how far runs have come.
-- KEYS  1 root of the queue
-- ARGV  for each report: id, token, text
-- Returns 1 for each that was stored, 0 for a stale token
-- include keys
-- include type_checks
-- include record
local q, stored = check_types(queue_of(KEYS[1])), {}
for at = 1, #ARGV, 3 do
  local r = load(q, ARGV[at])
  local holds = has_token(r, ARGV[at + 1])
  if holds then
    keep_text(q, r, 'progress', ARGV[at + 2])
    save(q, r)
  end
  stored[#stored + 1] = holds and 1 or 0
end
return stored
