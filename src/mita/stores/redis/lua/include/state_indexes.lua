-- Where a job stands by its state. It leaves the old place before it changes and stands in the new one after.

local RANK = 281474976710656 -- 2^48: priority above due time in one score, exact in a double

local function let_go(q, r)
  local holders = q.holders .. r.resource
  call('SREM', holders, r.handle)
  if call('EXISTS', holders) == 0 then call('SREM', q.held, r.resource) end
end

-- Out of the middle of a short list a job is taken at once. In a long one it is only counted as gone, and skipped when its
-- turn comes: it is not found there under a live half of its own, or not at all.
local function leave_list(q, r)
  local list, gone = ready_of(q, r.priority), 'gone:' .. r.priority
  local length, missing = call('LLEN', list), (tonumber(call('HGET', q.meta, gone) or 0) or 0)
  if length <= SHORT_LIST then
    length = length - call('LREM', list, 1, r.handle)
  else
    missing = call('HINCRBY', q.meta, gone, 1)
  end
  if missing > 0 and missing >= length then
    call('DEL', list)
    call('HDEL', q.meta, gone)
  end
end

local function leave(q, r)
  if r.nowhere then -- a claim has taken it out of its line, and has not put it anywhere else
    r.nowhere = false
  elseif r.state == 'queued' then
    if call('ZREM', due_of(q, r.priority), r.handle) == 0 then leave_list(q, r) end
  elseif r.state == 'blocked' then
    local waiting = q.waiting .. r.resource
    call('ZREM', q.blocked, r.handle)
    call('ZREM', waiting, r.handle)
    if call('EXISTS', waiting) == 0 then call('SREM', q.waited, r.resource) end
  elseif r.state == 'running' then
    if r.batch then
      leave_batch(q, r.batch, 1)
      r.batch = false
    else
      call('ZREM', q.lease, r.handle)
    end
    if r.resource then let_go(q, r) end
  else
    call('ZREM', q[r.state], r.handle)
    call('ZREM', q.expiry, r.handle)
  end
end

local function stand(q, r)
  if r.state == 'queued' then
    use_line(q, r.priority)
    call('ZADD', due_of(q, r.priority), r.due, r.handle)
    rung[q.name] = true
  elseif r.state == 'blocked' then
    call('ZADD', q.blocked, 0, r.handle)
    call('ZADD', q.waiting .. r.resource, (9 - r.priority) * RANK + r.due, r.handle)
    call('SADD', q.waited, r.resource)
  else
    call('ZADD', q[r.state], r.finished, r.handle)
    call('ZADD', q.expiry, r.expires, r.handle)
  end
end

local KEPT = 2592000000 -- thirty days, for which a record that cannot be read is kept

-- A job whose record cannot be read becomes a failed one. Its two halves stay as they are: nothing of it is thrown away.
local function set_aside(q, r, handle, now, why)
  if r.batch then
    leave_batch(q, r.batch, 1)
    call('HDEL', q.live, r.id)
  end
  for _, set in ipairs({ 'lease', 'blocked', 'succeeded', 'cancelled' }) do call('ZREM', q[set], handle) end
  for priority = 0, 9 do call('ZREM', due_of(q, priority), handle) end
  call('ZADD', q.failed, now, handle)
  call('ZADD', q.expiry, now + KEPT, handle)
  call('HSETNX', q.error, r.id, why or 'UnreadableRecord: its record cannot be read')
end

-- The id of the job that has a unique key: a living one, or until its end one that has ended.
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

local function free_unique(q, r, now)
  if not r.unique then return end
  if r.unique_for > 0 then
    call('HSET', q.unique, r.unique, r.id)
    call('ZADD', q.unique_ends, now + r.unique_for, r.unique)
  else
    call('HDEL', q.unique, r.unique)
    call('ZREM', q.unique_ends, r.unique)
  end
end

-- Nothing of the job is left. It has left its place before.
local function forget(q, r)
  call('HDEL', q.jobs, r.id)
  call('HDEL', q.live, r.id)
  if has_index(q) then call('ZREM', q.ids, r.id) end
  if r.extras then
    call('HDEL', q.error, r.id)
    call('HDEL', q.result, r.id)
    call('HDEL', q.progress, r.id)
    call('DEL', q.events .. r.id, q.memos .. r.id)
  end
end

local function finish(q, r, state, keep, now)
  leave(q, r)
  r.state, r.finished, r.expires = state, now, now + keep
  r.asked, r.asked_due, r.asked_keep = false, false, false
  free_unique(q, r, now)
  if keep == 0 then
    forget(q, r)
  else
    stand(q, r)
    save(q, r)
  end
end
