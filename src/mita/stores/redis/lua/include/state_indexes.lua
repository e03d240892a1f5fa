-- The lists and sorted sets that a job is in because of its state. A script removes a job from
-- them before it changes the record, and adds it after.
--
--   queued     due:PRIORITY (sorted by due time), or the list ready:PRIORITY; with `fair`, the set
--              of its group (see shares)
--   blocked    blocked, waiting:KEY (sorted by priority and due time), waited
--   running    lease (sorted by the end of the lease), holders:KEY and held for each of its keys
--   ended      the set of its state (sorted by the time of its end), expiry; of a failed job also
--              the set of its group

-- include use_priority
-- include id_index
-- include unique_keys
-- include notify
-- include shares
-- include dead_groups

-- The score of a job that waits at a key: by priority, then by due time. It is a whole number that
-- a double holds exactly. Until there were more priorities than 0 to 9, each of them had a range of
-- 2^48 scores, and jobs still wait under these. So they keep them. Higher priorities come before
-- them and lower ones behind them, in ranges of 2^45: until the year 3084 these sort by due time.
local function waiting_score(r)
  if r.priority >= 0 and r.priority <= 9 then return (9 - r.priority) * 2 ^ 48 + r.due end
  local due = math.min(r.due, 2 ^ 45 - 1)
  if r.priority > 9 then return (9 - r.priority) * 2 ^ 45 + due end
  return 10 * 2 ^ 48 - (r.priority + 1) * 2 ^ 45 + due
end

-- The keys of all gates of a job, each once.
local function keys_of(r)
  if not r.gates then return { r.resource } end
  local keys, known = {}, {}
  if r.resource then keys[1], known[r.resource] = r.resource, true end
  for _, gate in ipairs(r.gates) do
    if not known[gate[1]] then keys[#keys + 1], known[gate[1]] = gate[1], true end
  end
  return keys
end

local function free_key(q, r, key)
  local holders = q.holders .. key
  call('SREM', holders, r.handle)
  if q.holder_counts then q.holder_counts[key] = nil end
  if call('EXISTS', holders) == 0 then call('SREM', q.held, key) end
  if q.flow ~= '' then touch_key(q, key) end
end

-- From a short list a job is removed at once. In a long list it is only counted as removed, and
-- skipped when it comes to the front: it has a live part by then, another age, or is deleted.
local function remove_from_list(q, r)
  local list, gone = ready_of(q, r.priority), 'gone:' .. r.priority
  local length, missing = call('LLEN', list), removed_from_list(q, r.priority)
  if length <= SHORT_LIST_JOBS then
    length = length - call('LREM', list, 1, r.handle)
  else
    missing = call('HINCRBY', q.meta, gone, 1)
  end
  if missing > 0 and missing >= length then
    call('DEL', list)
    call('HDEL', q.meta, gone)
  end
end

local function remove_from_indexes(q, r)
  if r.in_no_index then -- a claim has taken it out of its queue, and has not put it anywhere else
    r.in_no_index = false
  elseif r.state == State.QUEUED then
    if r.fair then
      shares().remove(q, r)
    elseif call('ZREM', due_of(q, r.priority), r.handle) == 0 then
      remove_from_list(q, r)
    end
  elseif r.state == State.BLOCKED then
    local key = r.blocked_at
    local waiting = q.waiting .. key
    call('ZREM', q.blocked, r.handle)
    call('ZREM', waiting, r.handle)
    if call('EXISTS', waiting) == 0 then call('SREM', q.waited, key) end
    r.blocked_at = false
    if q.flow ~= '' then touch_key(q, key) end
  elseif r.state == State.RUNNING then
    if r.batch then
      leave_batch(q, r.batch, 1)
      r.batch = false
    else
      call('ZREM', q.lease, r.handle)
    end
    if r.gates then
      for _, key in ipairs(keys_of(r)) do free_key(q, r, key) end
    elseif r.resource then
      free_key(q, r, r.resource)
    end
  else
    call('ZREM', q[r.state], r.handle)
    call('ZREM', q.expiry, r.handle)
    if r.state == State.FAILED then leave_group(q, r.group or '', r.handle) end
  end
end

local function add_to_indexes(q, r)
  if r.state == State.QUEUED then
    use_priority(q, r.priority)
    if r.fair then
      shares().add(q, r)
    else
      call('ZADD', due_of(q, r.priority), r.due, r.handle)
    end
    topics[q.name] = true
  elseif r.state == State.BLOCKED then
    call('ZADD', q.blocked, 0, r.handle)
    call('ZADD', q.waiting .. r.blocked_at, waiting_score(r), r.handle)
    call('SADD', q.waited, r.blocked_at)
    if q.flow ~= '' then touch_key(q, r.blocked_at) end
  else
    call('ZADD', q[r.state], r.finished, r.handle)
    call('ZADD', q.expiry, r.expires, r.handle)
    if r.state == State.FAILED then enter_group(q, r.group or '', r.finished, r.handle) end
  end
end

-- Change the state of a job that has not ended, and write it. A job that becomes blocked has its
-- `blocked_at`.
local function move(q, r, state, due)
  remove_from_indexes(q, r)
  r.state, r.due = state, due
  add_to_indexes(q, r)
  save(q, r)
end

-- Write a job whose values have changed. A list has only jobs without a live part: a job that gets
-- one moves to the sorted set, or it would pass for one that was removed from the list.
local function save_values(q, r)
  if r.state == State.QUEUED and not r.touched and not r.fair then
    move(q, r, State.QUEUED, r.due)
  else
    save(q, r)
  end
end

-- A job whose record cannot be read becomes a failed one. Its two parts stay as they are, so that
-- nothing is lost.
local function set_aside(q, r, handle, now, why)
  if r.batch then
    leave_batch(q, r.batch, 1)
    call('HDEL', q.live, r.id)
  end
  for _, set in ipairs({ q.lease, q.blocked, q.succeeded, q.cancelled }) do
    call('ZREM', set, handle)
  end
  for _, priority in ipairs(used_priorities(q)) do call('ZREM', due_of(q, priority), handle) end
  call('ZADD', q.failed, now, handle)
  enter_group(q, '', now, handle)
  call('ZADD', q.expiry, now + SET_ASIDE_RETENTION_MS, handle)
  call('HSETNX', q.error, r.id, why or UNREADABLE_ERROR)
end

-- Delete everything of a job that is in no index any more.
local function delete_job(q, r)
  call('HDEL', q.jobs, r.id)
  call('HDEL', q.live, r.id)
  if has_id_index(q) then call('ZREM', q.ids, r.id) end
  if r.extras then
    call('HDEL', q.error, r.id)
    call('HDEL', q.result, r.id)
    call('HDEL', q.progress, r.id)
    call('DEL', q.events .. r.id, q.once_values .. r.id)
  end
end

-- End a job, and keep it for so long; 0 deletes it at once.
local function finish(q, r, state, keep, now)
  remove_from_indexes(q, r)
  r.state, r.finished, r.expires = state, now, now + keep
  r.asked, r.asked_due, r.asked_keep = false, false, false
  free_unique(q, r, now)
  if keep == 0 then
    delete_job(q, r)
  else
    add_to_indexes(q, r)
    save(q, r)
  end
end
