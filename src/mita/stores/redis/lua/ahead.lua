-- ahead: how many jobs go before this one. Of a list, jobs that are only marked as removed are
-- subtracted among the first 10 * CALL_ITEMS; behind that they are counted.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 id
-- Returns a number, -1 for a job that does not wait, false without such a job
-- include keys
-- include record
-- include priorities
local now, q = clock(ARGV[1]), queue_of(KEYS[1])
local r = load(q, ARGV[2])
if not r then return false end
if r.state == State.BLOCKED then return call('ZRANK', q.waiting .. r.resource, r.handle) end
if r.state ~= State.QUEUED or r.due > now then return -1 end

-- The first position from `low` to `high` whose entry does not go first (binary search).
local function search(low, high, goes_first)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if goes_first(middle) then low = middle + 1 else high = middle end
  end
  return low
end

local function is_older(handle)
  return #handle >= 8 and struct.unpack('>I8', handle) < struct.unpack('>I8', r.handle)
end

local due, ready = due_of(q, r.priority), ready_of(q, r.priority)
local ahead = call('ZRANK', due, r.handle)
if not ahead then
  local low = call('ZCOUNT', due, '-inf', '(' .. plain(r.due))
  local high = call('ZCOUNT', due, '-inf', plain(r.due))
  ahead = search(low, high, function(i) return is_older(call('ZRANGE', due, i, i)[1]) end)
end
local listed_ahead = search(0, call('LLEN', ready), function(i)
  local handle = call('LINDEX', ready, i)
  local listed = load_handle(q, handle)
  local listed_due = listed and not listed.touched and listed.due or r.due
  return listed_due < r.due or (listed_due == r.due and is_older(handle))
end)

local function removed_before(n)
  local many = 0
  for start = 0, math.min(n, CALL_ITEMS * 10) - 1, CALL_ITEMS do
    for _, handle in ipairs(call('LRANGE', ready, start, math.min(start + CALL_ITEMS, n) - 1)) do
      local listed = load_handle(q, handle)
      if not listed or listed.touched or listed.handle ~= handle then many = many + 1 end
    end
  end
  return many
end

ahead = ahead + listed_ahead
if call('HEXISTS', q.meta, 'gone:' .. r.priority) == 1 then
  ahead = ahead - removed_before(listed_ahead)
end
for priority = r.priority + 1, HIGHEST_PRIORITY do
  local listed = call('LLEN', ready_of(q, priority)) - removed_from_list(q, priority)
  ahead = ahead + call('ZCOUNT', due_of(q, priority), '-inf', now) + listed
end
return ahead
