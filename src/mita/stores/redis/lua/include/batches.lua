-- One lease for a batch. Jobs that are on their first run and were claimed together have the name
-- of their batch in place of a live part: 'r', their token, ':' and a number. `runs` has the live
-- part that they share (under the name) and their ids (under '+' and the name), `left` how many
-- still run, and `lease` the lease. As soon as anything happens to one of them, it gets a live part
-- and a lease of its own.

local BATCH = 114 -- 'r'. No packed live part begins with this byte.

local function is_batch(live) return live:byte() == BATCH end

local function is_batch_of(live, token)
  local beginning = 'r' .. token .. ':'
  return live:sub(1, #beginning) == beginning
end

-- The live part that the jobs of a batch share.
local function shared_live(q, batch)
  q.shared_lives = q.shared_lives or {}
  if not q.shared_lives[batch] then q.shared_lives[batch] = call('HGET', q.runs, batch) end
  return q.shared_lives[batch]
end

local function end_batch(q, batch)
  call('HDEL', q.runs, batch, '+' .. batch)
  call('HDEL', q.left, batch)
  call('ZREM', q.lease, batch)
end

-- The ids of a batch whose list of ids cannot be read: found among all live parts.
local function search_members(q, batch)
  local found, all = {}, call('HGETALL', q.live)
  for i = 1, #all, 2 do
    if all[i + 1] == batch then found[#found + 1] = all[i] end
  end
  return found
end

-- The ids of the jobs that still run under the lease of a batch.
local function members(q, batch)
  local found = {}
  local ok, ids = pcall(cmsgpack.unpack, call('HGET', q.runs, '+' .. batch) or '')
  if not ok or type(ids) ~= 'table' or #ids == 0 then return search_members(q, batch) end
  local lives = call('HMGET', q.live, unpack(ids))
  for i, id in ipairs(ids) do
    if lives[i] == batch then found[#found + 1] = id end
  end
  return found
end

-- So many jobs leave the batch. The last one ends it.
local function leave_batch(q, batch, jobs)
  local left = redis.pcall('HINCRBY', q.left, batch, -jobs)
  if type(left) ~= 'number' then -- the counter cannot be read
    left = #members(q, batch)
    call('HSET', q.left, batch, left)
  end
  if left <= 0 then end_batch(q, batch) end
end
