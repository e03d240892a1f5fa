-- dead_groups_hours: how many jobs of a group have failed since each of these moments.
-- KEYS  1 root of the queue
-- ARGV  1 number of moments  then the moments  then groups
-- Returns the counts of each group
-- include keys
local q, rows, moments = queue_of(KEYS[1]), {}, tonumber(ARGV[1])
for i = moments + 2, #ARGV do
  local counts = {}
  for at = 2, moments + 1 do
    counts[at - 1] = call('ZCOUNT', q.dead .. ARGV[i], '(' .. ARGV[at], '+inf')
  end
  rows[#rows + 1] = counts
end
return rows
