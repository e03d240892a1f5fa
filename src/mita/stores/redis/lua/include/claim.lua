-- Claiming due jobs.
--
-- `c` is the claim call: `now`, `moment` and `lease` (now and the end of the lease as text, because
-- numbers are slow to pass to a command; the moment is also the token of every first run),
-- `ageing` (nil: priorities are strict), `worker`, `limit`, `left` (how many jobs are still
-- wanted), `looked_at` (how many were met), `turned_away` (how many of them wait for a key now),
-- `first_live` (the live part of every first run), and the answer so far: `fixed` (fixed parts) and
-- `touched` (position, live part and progress of the jobs that are not on their first run).

-- `rare()` has the functions that only some calls need (see settle_and_claim).

-- When the first job of a sorted set is due; math.huge if the set is empty.
local function first_due(q, priority)
  return tonumber(call('ZRANGE', due_of(q, priority), '0', '0', 'WITHSCORES')[2] or math.huge)
end

-- The first n handles of a priority, from its list and its sorted set, by due time and age. Returns
-- them, how many are from the list, which are (nil: all or none), and how many are from the set.
local function first_handles(q, c, priority, n)
  local listed = call('LRANGE', ready_of(q, priority), '0', n - 1)
  if q.first_due[priority] > c.now then return listed, #listed, nil, 0 end
  local due = due_of(q, priority)
  if #listed == 0 then
    local handles = call('ZRANGEBYSCORE', due, '-inf', c.moment, 'LIMIT', '0', n)
    return handles, 0, nil, #handles
  end
  local sorted = call('ZRANGEBYSCORE', due, '-inf', c.moment, 'WITHSCORES', 'LIMIT', '0', n)
  local ids = {}
  for i, handle in ipairs(listed) do ids[i] = handle:sub(ID_AT) end
  local fixed = call('HMGET', q.jobs, unpack(ids))
  local handles, of_list, a, b = {}, {}, 0, 0
  while #handles < n and (listed[a + 1] or sorted[b * 2 + 1]) do
    local mine, other = listed[a + 1], sorted[b * 2 + 1]
    if mine and other and fixed[a + 1] then
      local mine_due, other_due = number_at(fixed[a + 1], DUE_AT), tonumber(sorted[b * 2 + 2])
      local is_older = number_at(other, 1) < number_at(mine, 1)
      if other_due < mine_due or (other_due == mine_due and is_older) then mine = nil end
    end
    if mine then a = a + 1 else b = b + 1 end
    handles[#handles + 1], of_list[#handles + 1] = mine or other, mine and true or false
  end
  return handles, a, of_list, b
end

local function next_batch(q)
  local number = redis.pcall('HINCRBY', q.meta, 'batch', 1)
  if type(number) == 'number' then return number end
  number = microseconds() -- the counter cannot be read: a number that was not used before
  call('HSET', q.meta, 'batch', plain(number))
  return plain(number)
end

-- Start jobs on their first run that have no resource key: as a batch with one lease, if there are
-- enough of them.
local function start_first_runs(q, c, ids, handles)
  local n, writes, live = #ids, {}, c.first_live
  if n == 0 then return end
  local batch = n >= SMALLEST_BATCH_JOBS and 'r' .. c.moment .. ':' .. next_batch(q)
  if batch then
    call('HSET', q.runs, batch, live, '+' .. batch, cmsgpack.pack(ids))
    call('HSET', q.left, batch, n)
    call('ZADD', q.lease, c.lease, batch)
    live = batch
  end
  for i = 1, n do writes[i * 2 - 1], writes[i * 2] = ids[i], live end
  call('HSET', q.live, unpack(writes))
  if batch then return end
  for i = 1, n do writes[i * 2 - 1], writes[i * 2] = c.lease, handles[i] end
  call('ZADD', q.lease, unpack(writes))
end

-- Whether a handle in a list is one that was only counted as removed: the job was touched, is
-- deleted, or is another job with the same id.
local function is_removed(handle, fixed, live)
  return not fixed or live or handle_in(fixed) ~= handle
end

local function uncount_removed(q, priority, n)
  if call('HINCRBY', q.meta, 'gone:' .. priority, -n) <= 0 then
    call('HDEL', q.meta, 'gone:' .. priority)
  end
end

-- Read keys that are written later: a key of another type must be found before the first write.
-- `flag` is the highest flag of the jobs.
local function check_claim_types(q, jobs, flag)
  call('ZCARD', q.lease)
  call('HLEN', q.live)
  if jobs >= SMALLEST_BATCH_JOBS then
    call('HLEN', q.runs)
    call('HLEN', q.left)
  end
  if flag and not q.types_checked then rare().check_types(q) end
  local has_flow = flag and flag >= FIRST_FLOW_FLAG
  if has_flow and not q.flow_types_checked then rare().check_flow_types(q) end
end

-- Whether the flag of a handle says that its job has a resource key or gates.
local function has_gates(flag) return flag and (flag % 2 == 1 or flag % 8 >= 4) end

-- Start those of these jobs that may start. They are in no index any more. `removed` says how many
-- jobs of the list are only counted as removed, and `of_list` which jobs are from the list (nil:
-- all). Returns how many of them were such jobs.
local function start_jobs(q, c, handles, ids, fixed, lives, removed, of_list)
  local given, before, first_ids, first_runs, skipped = c.fixed, #c.fixed, {}, {}, 0
  local new_lives, leases, byte, keyed = {}, {}, string.byte, nil
  for i = 1, #handles do
    local part, live, handle = fixed[i], lives[i], handles[i]
    local flag = byte(handle, FLAG_AT)
    if removed > 0 and (not of_list or of_list[i]) and is_removed(handle, part, live) then
      skipped = skipped + 1
    elseif part and flag ~= PLAIN_FLAG and has_gates(flag) then
      local r, id = rare(), ids[i]
      keyed = keyed or r.new_key_writes()
      if not r.start_keyed(q, c, id, part, live, handle, flag, keyed, new_lives, leases) then
        r.write_keys(q, keyed)
        keyed = nil
        r.start_or_block(q, c, id, part, live, handle, new_lives, leases)
      end
    elseif part and live then
      rare().restart(q, c, ids[i], part, live, handle, new_lives, leases)
    elseif part then
      given[#given + 1] = part
      first_ids[#first_ids + 1], first_runs[#first_runs + 1] = ids[i], handle
    end
  end
  start_first_runs(q, c, first_ids, first_runs)
  if #new_lives > 0 then
    call('HSET', q.live, unpack(new_lives))
    call('ZADD', q.lease, unpack(leases))
  end
  if keyed then rare().write_keys(q, keyed) end
  if #c.unread > 0 then rare().read_progress(q, c) end
  local started = #given - before
  c.left = c.left - started
  if q.places then q.places = q.places - started end
  return skipped
end

-- Take the first n jobs of a priority out of the queue, and start those that may run. Returns how
-- many were taken out.
local function claim_first(q, c, priority, n)
  local handles, a, of_list, b = first_handles(q, c, priority, n)
  local ids, many, flag, sub, byte = {}, #handles, false, string.sub, string.byte
  if many == 0 then return 0 end
  for i = 1, many do
    local handle = handles[i]
    ids[i] = sub(handle, ID_AT)
    local its_flag = byte(handle, FLAG_AT)
    if its_flag ~= PLAIN_FLAG and has_gates(its_flag) then flag = math.max(flag or 0, its_flag) end
  end
  check_claim_types(q, many, flag)
  local fixed = call('HMGET', q.jobs, unpack(ids))
  local removed = a > 0 and removed_from_list(q, priority) or 0
  local lives = (b > 0 or removed > 0) and call('HMGET', q.live, unpack(ids)) or {}
  if a > 0 then call('LTRIM', ready_of(q, priority), a, '-1') end
  if b > 0 then
    call('ZREMRANGEBYRANK', due_of(q, priority), '0', b - 1)
    q.first_due[priority] = first_due(q, priority)
  end
  local skipped = start_jobs(q, c, handles, ids, fixed, lives, removed, of_list)
  if skipped > 0 then uncount_removed(q, priority, skipped) end
  return many
end

-- Read when the first job of each sorted set is due, for the priorities that were ever used.
local function read_first_due(q)
  q.next_due, q.first_due = {}, {}
  for _, priority in ipairs(used_priorities(q)) do
    q.first_due[priority] = first_due(q, priority)
  end
end

-- How many more jobs of this queue the call may start.
local function wanted(q, c) return q.places and math.min(c.left, q.places) or c.left end

-- Whether a claim has started some jobs and turned more away. Then their keys are busy with other
-- runs, and to look at more jobs would only block them: the next claim goes on.
local function has_enough(c)
  return c.turned_away >= ENOUGH_STARTS and #c.fixed >= ENOUGH_STARTS
end

-- include claim_alone

-- Claim from one queue, the highest priority first. Then `q.next_due` says for each priority when
-- its next job is due; a job in a list is due now.
local function claim(q, c)
  if uses(q, GROUPS) then return claim_with_groups(q, c) end
  if c.ageing and #q.used > 1 then return rare().ranked().claim(q, c) end
  for _, priority in ipairs(used_priorities(q)) do
    local empty = not q.first_due[priority]
    while not empty and wanted(q, c) > 0 and c.looked_at < CALL_ITEMS and not has_enough(c) do
      local n = math.min(wanted(q, c), CALL_ITEMS - c.looked_at)
      local met = claim_first(q, c, priority, n)
      c.looked_at = c.looked_at + met
      empty = met < n
    end
    q.next_due[priority] = q.first_due[priority]
    local wants_more = c.left > 0 or c.limit == 0 -- a worker that got all it wanted asks again
    if not empty and wants_more and call('LLEN', ready_of(q, priority)) > 0 then
      q.next_due[priority] = 0
    end
  end
end

-- When the next key with a rate wakes a job by the clock; math.huge: never. A key with 0 is tried
-- at each claim (see gates).
local function next_wake_at(q)
  local found = call('ZRANGEBYSCORE', q.wakes, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return tonumber(found[2] or math.huge)
end

-- When there may be more to claim: when the next job is due, when a hold ends that a job waits for,
-- or when a rate has its next token. nil: never.
local function next_claim_at(q, now)
  local soonest = math.huge
  for _, due in pairs(q.next_due) do soonest = math.min(soonest, due) end
  if q.places and soonest < math.huge then
    soonest = rare().gates().next_start(q, soonest, now) or math.huge
  end
  if uses(q, RATES) then soonest = math.min(soonest, next_wake_at(q)) end
  local holds = q.has_holds and call('ZRANGE', q.holds, 0, CALL_ITEMS - 1, 'WITHSCORES') or {}
  for i = 1, #holds, 2 do
    if call('EXISTS', q.waiting .. holds[i]) == 1 then
      return math.min(soonest, tonumber(holds[i + 1]))
    end
  end
  return soonest < math.huge and soonest or nil
end
