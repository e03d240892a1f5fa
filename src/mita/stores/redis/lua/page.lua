-- page: ids of jobs that match, newest first, from a part of the queue's ids.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 below this id, '' for the newest  3 limit
--       4 state, '' for any  5 the state as it is shown, '' for any
--       6 task  7 resource key  8 unique key  9 repeat  10 part of the error's type and message;
--       11 a text that the record contains, which jobs with a tag do; '' for any
--       12 group of a failed job, with '=' before it; '' for any
-- Returns the ids, and where the next part begins (false: this was the last); or false when the ids
--       are not sorted yet: then page_index must be called until it returns 1
-- include keys
-- include record
-- include id_index
local FEW_JOBS = 2000
local FEW_JOBS_OF_GROUP = 20000 -- all of them match, so it is worth more to look at them
local now, q, found = clock(ARGV[1]), queue_of(KEYS[1]), {}
local after, limit, state, shown = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local function error_matches(r)
  local error = r.extras and call('HGET', q.error, r.id)
  local trace = error and error:find('\n  File "', 1, true)
  return error and (trace and error:sub(1, trace - 1) or error):find(ARGV[10], 1, true)
end

local function has_key(r, key)
  for _, gate in ipairs(r.gates or {}) do
    if gate[1] == key then return true end
  end
  return r.resource == key
end

local function shown_as(r)
  if r.state ~= State.QUEUED then return r.state end
  if r.due <= now then return DisplayState.READY end
  return r.due == LATEST and DisplayState.WAITING or DisplayState.SCHEDULED
end

local function is_in_group(r)
  return r.state == State.FAILED and '=' .. (r.group or '') == ARGV[12]
end

local function matches(r)
  if state ~= '' and r.state ~= state then return false end
  if shown ~= '' and shown_as(r) ~= shown then return false end
  for i, field in pairs({ [6] = 'task', [8] = 'unique', [9] = 'repeat' }) do
    if ARGV[i] ~= '' and r[field] ~= ARGV[i] then return false end
  end
  if ARGV[7] ~= '' and not has_key(r, ARGV[7]) then return false end
  if ARGV[12] ~= '' and not is_in_group(r) then return false end
  if ARGV[11] ~= '' and not r.fixed:find(ARGV[11], 1, true) then return false end
  return ARGV[10] == '' or error_matches(r)
end

local function set_of_state()
  if ARGV[12] == '=' then return q.failed end
  if ARGV[12] ~= '' then return q.dead .. ARGV[12]:sub(2) end
  if ENDED[state] then return q[state] end
  if state == State.RUNNING then return q.lease end
  return state == State.BLOCKED and q.blocked
end

-- Keep the newest ids. Returns the oldest of them.
local function keep_newest(ids)
  table.sort(ids, function(a, b) return a > b end)
  for i = #ids, CALL_ITEMS + 1, -1 do ids[i] = nil end
  return ids[CALL_ITEMS]
end

-- The newest ids of a state or a group that has few jobs, from its own set: a search among all jobs
-- would take long. Also whether there are more. nil for other states.
local function ids_of_state()
  local set = set_of_state()
  local few = ARGV[12]:len() > 1 and FEW_JOBS_OF_GROUP or FEW_JOBS
  if not set or call('ZCARD', set) > few then return nil end
  local ids, oldest, seen = {}, nil, 0
  local function add(id)
    if after ~= '' and id >= after then return end
    seen = seen + 1
    if not oldest or id > oldest then ids[#ids + 1] = id end
    if #ids == 2 * CALL_ITEMS then oldest = keep_newest(ids) end
  end
  for _, handle in ipairs(call('ZREVRANGE', set, 0, -1)) do
    if is_batch(handle) then
      for _, id in ipairs(members(q, handle)) do add(id) end
    else
      add(handle:sub(ID_AT))
    end
  end
  keep_newest(ids)
  return ids, seen > #ids
end

local function sorted_ids()
  local below = after == '' and '+' or '(' .. after
  return call('ZREVRANGEBYLEX', q.ids, below, '-', 'LIMIT', 0, CALL_ITEMS)
end

local all, has_more = ids_of_state()
if not all then
  if call('HGET', q.meta, 'scan') ~= 'done' then return false end
  if (tonumber(has_id_index(q)) or 0) < now + PAGE_INDEX_RETENTION_MS / 2 then
    call('HSET', q.meta, 'index', plain(now + PAGE_INDEX_RETENTION_MS))
  end
end
local ids = all or sorted_ids()
has_more = has_more or not all and #ids == CALL_ITEMS
for i, id in ipairs(ids) do
  local r = load(q, id)
  if r and matches(r) then found[#found + 1] = id end
  if #found == limit then return { found, (i < #ids or has_more) and id } end
end
return { found, has_more and ids[#ids] }
