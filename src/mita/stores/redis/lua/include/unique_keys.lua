-- Unique keys: `unique` says which job has a key, `unique_ends` until when a job that has ended
-- keeps it.

-- The id of the job that has a key: one that has not ended, or whose `unique_for` is not over.
local function unique_holder(q, key, now)
  local id = call('HGET', q.unique, key)
  if not id then return nil end
  local ends = call('ZSCORE', q.unique_ends, key)
  if ends then return tonumber(ends) > now and id or nil end
  local r = load(q, id)
  return r and not ENDED[r.state] and id or nil
end

local function take_unique(q, key, id)
  call('HSET', q.unique, key, id)
  call('ZREM', q.unique_ends, key)
end

local function delete_unique(q, key)
  call('HDEL', q.unique, key)
  call('ZREM', q.unique_ends, key)
end

-- A job ends: its key is free now, or when `unique_for` is over.
local function free_unique(q, r, now)
  if not r.unique then return end
  if r.unique_for > 0 then
    call('HSET', q.unique, r.unique, r.id)
    call('ZADD', q.unique_ends, now + r.unique_for, r.unique)
  else
    delete_unique(q, r.unique)
  end
end
