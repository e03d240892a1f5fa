-- progress: note how far a run has come.
-- KEYS  1 root of the queue
-- ARGV  of each report: id, token, text
-- gives 1 for each that was noted, 0 for a stale token
-- include keys
-- include record
local q, said = sound(queue_of(KEYS[1])), {}
for at = 1, #ARGV, 3 do
  local r = load(q, ARGV[at])
  local holds = r and r.state == 'running' and r.token == tonumber(ARGV[at + 1])
  if holds then
    keep_text(q, r, 'progress', ARGV[at + 2])
    save(q, r)
  end
  said[#said + 1] = holds and 1 or 0
end
return said
