-- ahead: how many jobs go before this one. Of a list, jobs that are only marked as removed are
-- subtracted among the first 10 * CALL_ITEMS; behind that they are counted. In a queue with groups
-- the first turns are tried out one by one; behind them the answer is an estimate (see
-- turns_ahead).
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 id  3 ageing, '' if priorities are strict
-- Returns a number, -1 for a job that does not wait, false without such a job
-- include keys
-- include record
-- include priorities
-- include shares
-- include turns_ahead
local now, q, ageing = clock(ARGV[1]), queue_of(KEYS[1]), tonumber(ARGV[3])
local r = load(q, ARGV[2])
if not r then return false end
if r.state == State.BLOCKED then return call('ZRANK', q.waiting .. r.blocked_at, r.handle) end
if r.state ~= State.QUEUED or r.due > now then return -1 end
if uses(q, GROUPS) then return turns_ahead(q, r, now, ageing) end

-- The first position from `low` to `high` whose entry does not go first (binary search).
local function search(low, high, goes_first)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if goes_first(middle) then low = middle + 1 else high = middle end
  end
  return low
end

local function is_older(handle) return number_at(handle, 1) < number_at(r.handle, 1) end

-- How many of the first n jobs of a list are only marked as removed.
local function removed_before(priority, n)
  local ready, many = ready_of(q, priority), 0
  if call('HEXISTS', q.meta, 'gone:' .. priority) == 0 then return 0 end
  for start = 0, math.min(n, CALL_ITEMS * 10) - 1, CALL_ITEMS do
    for _, handle in ipairs(call('LRANGE', ready, start, math.min(start + CALL_ITEMS, n) - 1)) do
      local listed = load_handle(q, handle)
      if not listed or listed.touched or listed.handle ~= handle then many = many + 1 end
    end
  end
  return many
end

-- How many jobs of a list are due before then. Jobs with exactly this due time count if they are
-- older, or all of them (`all`).
local function listed_until(priority, due, all)
  local ready = ready_of(q, priority)
  local n = search(0, call('LLEN', ready), function(i)
    -- one that is only marked as removed says nothing: the one before it does
    for back = i, math.max(0, i - CALL_ITEMS), -1 do
      local handle = call('LINDEX', ready, back)
      local listed = load_handle(q, handle)
      if listed and not listed.touched and listed.handle == handle then
        return listed.due < due or (listed.due == due and (all or is_older(handle)))
      end
    end
    return true
  end)
  return n - removed_before(priority, n)
end

local function ahead_in_own_priority()
  local due = due_of(q, r.priority)
  local ahead = call('ZRANK', due, r.handle)
  if not ahead then
    local low = call('ZCOUNT', due, '-inf', '(' .. plain(r.due))
    local high = call('ZCOUNT', due, '-inf', plain(r.due))
    ahead = search(low, high, function(i) return is_older(call('ZRANGE', due, i, i)[1]) end)
  end
  return ahead + listed_until(r.priority, r.due, false)
end

-- With ageing: jobs of another priority that are due until then go before this one.
local function ahead_by_age(priority)
  local last = r.due + (priority - r.priority) * ageing
  if priority < r.priority then last = last - 1 end
  last = math.min(now, last)
  local sorted = call('ZCOUNT', due_of(q, priority), '-inf', plain(last))
  return sorted + listed_until(priority, last, true)
end

local ahead = ahead_in_own_priority()
for _, priority in ipairs(used_priorities(q)) do
  if ageing and priority ~= r.priority then
    ahead = ahead + ahead_by_age(priority)
  elseif not ageing and priority > r.priority then
    local listed = call('LLEN', ready_of(q, priority)) - removed_from_list(q, priority)
    ahead = ahead + call('ZCOUNT', due_of(q, priority), '-inf', now) + listed
  end
end
return ahead
