-- raw: everything that is stored of a job, as it is.
-- KEYS  1 root of the queue
-- ARGV  ids
-- gives {name, text, name, text, …} of each, false for one that is not there
-- include keys
local q, said = queue_of(KEYS[1]), {}
for i, id in ipairs(ARGV) do
  local parts = {}
  for _, name in ipairs({ 'jobs', 'live', 'error', 'result', 'progress' }) do
    local text = redis.call('HGET', q[name], id)
    if text then
      parts[#parts + 1] = name
      parts[#parts + 1] = text
    end
  end
  for n, text in ipairs(redis.call('LRANGE', q.events .. id, 0, -1)) do
    parts[#parts + 1] = 'event ' .. n
    parts[#parts + 1] = text
  end
  said[i] = redis.call('HEXISTS', q.jobs, id) == 1 and parts
end
return said
