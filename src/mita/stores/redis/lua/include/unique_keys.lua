-- Unique keys: `unique` says which job has a key, `unique_ends` until when a job keeps it that has
-- ended, or that was enqueued with a throttle.

-- The id of the job that has a key: one that has not ended, or whose `unique_for` or throttle is
-- not over.
local function unique_holder(q, key, now)
  local id = call('HGET', q.unique, key)
  if not id then return nil end
  local ends = call('ZSCORE', q.unique_ends, key)
  if ends then return tonumber(ends) > now and id or nil end
  local r = load(q, id)
  return r and not ENDED[r.state] and id or nil
end

-- The key belongs to this job: until it ends, or until `throttled_until`.
local function take_unique(q, key, id, throttled_until)
  call('HSET', q.unique, key, id)
  if throttled_until then
    call('ZADD', q.unique_ends, throttled_until, key)
  else
    call('ZREM', q.unique_ends, key)
  end
end

local function delete_unique(q, key)
  call('HDEL', q.unique, key)
  call('ZREM', q.unique_ends, key)
end

-- A job ends: its key is free now, or when `unique_for` is over. Nothing changes if another job
-- has taken the key over, or if a throttle keeps it.
local function free_unique(q, r, now)
  if not r.unique or call('HGET', q.unique, r.unique) ~= r.id then return end
  if call('ZSCORE', q.unique_ends, r.unique) then return end
  if r.unique_for > 0 then
    call('ZADD', q.unique_ends, now + r.unique_for, r.unique)
  else
    call('HDEL', q.unique, r.unique)
  end
end
