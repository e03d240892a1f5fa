-- ahead: how many go first. Beyond the first 10,000 of a list, those that are gone and still in it count as if they were there.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 id
-- gives a number, -1 for a job that is not in line, false for one that is not there
-- include keys
-- include record
local now, q = clock(ARGV[1]), queue_of(KEYS[1])
local r = load(q, ARGV[2])
if not r then return false end
if r.state == 'blocked' then return call('ZRANK', q.waiting .. r.resource, r.handle) end
if r.state ~= 'queued' or r.due > now then return -1 end

-- Where the job would stand between `low` and `high` of what is in order already.
local function place(low, high, goes_first)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if goes_first(middle) then low = middle + 1 else high = middle end
  end
  return low
end

local function is_older(handle) return #handle >= 8 and struct.unpack('>I8', handle) < struct.unpack('>I8', r.handle) end

local due, ready = due_of(q, r.priority), ready_of(q, r.priority)
local sorted = call('ZRANK', due, r.handle)
local ahead = sorted or place(call('ZCOUNT', due, '-inf', '(' .. plain(r.due)), call('ZCOUNT', due, '-inf', plain(r.due)),
  function(i) return is_older(call('ZRANGE', due, i, i)[1]) end)
local listed_ahead = place(0, call('LLEN', ready), function(i)
  local handle = call('LINDEX', ready, i)
  local listed = load_handle(q, handle)
  local came = listed and not listed.touched and listed.due or r.due
  return came < r.due or (came == r.due and is_older(handle))
end)

local function gone_before(n)
  local many = 0
  for start = 0, math.min(n, MOST * 10) - 1, MOST do
    for _, handle in ipairs(call('LRANGE', ready, start, math.min(start + MOST, n) - 1)) do
      local listed = load_handle(q, handle)
      if not listed or listed.touched or listed.handle ~= handle then many = many + 1 end
    end
  end
  return many
end

ahead = ahead + listed_ahead
if call('HEXISTS', q.meta, 'gone:' .. r.priority) == 1 then ahead = ahead - gone_before(listed_ahead) end
for priority = r.priority + 1, 9 do
  local gone = (tonumber(call('HGET', q.meta, 'gone:' .. priority) or 0) or 0)
  ahead = ahead + call('ZCOUNT', due_of(q, priority), '-inf', now) + call('LLEN', ready_of(q, priority)) - gone
end
return ahead
