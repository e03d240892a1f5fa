-- raw: everything that is stored of a job, as bytes.
-- KEYS  1 root of the queue
-- ARGV  ids
-- Returns {name, bytes, name, bytes, …} of each, false for one that is not stored
-- include keys
local q, rows = queue_of(KEYS[1]), {}
for i, id in ipairs(ARGV) do
  local parts = {}
  for _, name in ipairs({ 'jobs', 'live', 'error', 'result', 'progress' }) do
    local bytes = redis.call('HGET', q[name], id)
    if bytes then
      parts[#parts + 1] = name
      parts[#parts + 1] = bytes
    end
  end
  for n, bytes in ipairs(redis.call('LRANGE', q.events .. id, 0, -1)) do
    parts[#parts + 1] = 'event ' .. n
    parts[#parts + 1] = bytes
  end
  rows[i] = redis.call('HEXISTS', q.jobs, id) == 1 and parts
end
return rows
