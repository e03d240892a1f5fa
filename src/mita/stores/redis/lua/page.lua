-- page: ids of jobs that match, newest first, out of a slice of the queue's ids.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 below this id, '' for the newest  3 limit  4 state, '' for any
--       5 scheduled: '1' ahead, '0' ready, '' for any
--       6 task  7 resource key  8 unique key  9 repeat  10 part of the error's type and message: '' for any
-- gives the ids, and where the next slice begins (false: that was the last); false when the ids are not in order yet: `index`
--       does that, and is to be called until it says so
-- include keys
-- include record
local now, q, found = clock(ARGV[1]), queue_of(KEYS[1]), {}
local after, limit, state, scheduled = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local FEW = 2000
if scheduled ~= '' and state == '' then state = 'queued' end

local function matches(r)
  if state ~= '' and r.state ~= state then return false end
  if scheduled ~= '' and (r.state ~= 'queued' or (r.due > now) ~= (scheduled == '1')) then return false end
  for i, field in ipairs({ 'task', 'resource', 'unique', 'repeats' }) do
    if ARGV[5 + i] ~= '' and r[field] ~= ARGV[5 + i] then return false end
  end
  if ARGV[10] == '' then return true end
  local error = r.extras and call('HGET', q.error, r.id)
  local trace = error and error:find('\n  File "', 1, true)
  return error and (trace and error:sub(1, trace - 1) or error):find(ARGV[10], 1, true)
end

-- A state with few jobs is read from its own set: among a million others it would be long looked for.
local function few()
  local set = ENDED[state] and q[state] or state == 'running' and q.lease or state == 'blocked' and q.blocked
  if not set or call('ZCARD', set) > FEW then return nil end
  local ids = {}
  local function add(id)
    if after == '' or id < after then ids[#ids + 1] = id end
  end
  for _, place in ipairs(call('ZRANGE', set, 0, -1)) do
    if is_batch(place) then
      for _, id in ipairs(members(q, place)) do add(id) end
    else
      add(place:sub(10))
    end
  end
  table.sort(ids, function(a, b) return a > b end)
  return ids
end

local all = few()
if not all then
  if call('HGET', q.meta, 'scan') ~= 'done' then return false end
  if (tonumber(has_index(q)) or 0) < now + LOOKING / 2 then call('HSET', q.meta, 'index', plain(now + LOOKING)) end
end
local ids = all or call('ZREVRANGEBYLEX', q.ids, after == '' and '+' or '(' .. after, '-', 'LIMIT', 0, MOST)
for i, id in ipairs(ids) do
  local r = load(q, id)
  if r and matches(r) then found[#found + 1] = id end
  if #found == limit then return { found, i < #ids and id or (not all and #ids == MOST and id) } end
end
return { found, not all and #ids == MOST and ids[#ids] }
