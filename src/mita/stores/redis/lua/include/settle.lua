-- Settling plain successes, many at a time. Each function for a group returns the positions of the
-- settlements whose token was stale. A run of which something was asked is settled by settle_one.

-- What is deleted from `live` and `lease` is deleted at the end of the script, when the next claims
-- are written: a hash that becomes empty and is filled again is built anew each time.
local deletes = {}
local function delete_later(command, key, items) deletes[#deletes + 1] = { command, key, items } end

local function run_deletes()
  for _, delete in ipairs(deletes) do call(delete[1], delete[2], unpack(delete[3])) end
  deletes = {}
end

-- include live_tails

-- How a successful run with this live part is deleted: with its batch, 'alone', with what other
-- keys have of it ('marked'), or by `settle_one` ('special').
local function way_to_delete(live, token, read)
  if is_batch(live) then return is_batch_of(live, token) and 'batch' or 'special' end
  local found, state, its_token = read(live)
  if not found or state ~= State.RUNNING or plain(its_token) ~= token then return 'special' end
  return found.extras and 'marked' or 'alone'
end

-- What other keys have of these jobs.
local function delete_extras(q, ids)
  local hashes, keys = { q.error, q.result, q.progress }, {}
  for _, hash in ipairs(hashes) do call('HLEN', hash) end
  for _, hash in ipairs(hashes) do call('HDEL', hash, unpack(ids)) end
  for i, id in ipairs(ids) do keys[i * 2 - 1], keys[i * 2] = q.events .. id, q.once_values .. id end
  call('DEL', unpack(keys))
end

-- Plain successes that are deleted at once; each item is an id. ARGV[tokens] is the first token,
-- each is followed by the number of its items.
local function settle_forgotten(q, tokens, from, n, verdict, now)
  if not q.types_checked then -- a key of another type must be found before the first write
    for _, key in ipairs({ q.jobs, q.runs, q.left }) do call('HLEN', key) end
    call('ZCARD', q.lease)
    if has_id_index(q) then call('ZCARD', q.ids) end
  end
  local args, gone, alone, marked, of_batch, stale, m, i = ARGV, {}, {}, {}, {}, {}, 0, 0
  local lives = call('HMGET', q.live, unpack(args, from, from + n - 1))
  local read = by_tail(function(r) return not r.asked and { extras = r.extras } end)
  while i < n do
    local token, last, ways = args[tokens], i + args[tokens + 1], {}
    for at = i + 1, last do
      local live, id = lives[at], args[from + at - 1]
      local way = live and (ways[live] or way_to_delete(live, token, read))
      if way == 'batch' then
        m = m + 1
        gone[m], ways[live] = id, way
        of_batch[live] = (of_batch[live] or 0) + 1
      elseif way == 'alone' or way == 'marked' then
        m = m + 1
        gone[m], alone[#alone + 1] = id, id
        if way == 'marked' then marked[#marked + 1] = id end
      else
        if live and not q.types_checked then rare().check_used_types(q) end
        local is_done = live
          and rare().settle_one(q, id, token, cmsgpack.unpack(verdict), '', now)
        if not is_done then stale[#stale + 1] = at end
      end
    end
    i, tokens = last, tokens + 2
  end
  if #marked > 0 then delete_extras(q, marked) end
  if #alone > 0 then
    for j, fixed in ipairs(call('HMGET', q.jobs, unpack(alone))) do
      alone[j] = fixed and handle_in(fixed) or ''
    end
    delete_later('ZREM', q.lease, alone)
  end
  if m > 0 then
    if uses(q, LIMITED) then topics[q.name] = true end
    delete_later('HDEL', q.live, gone)
    call('HDEL', q.jobs, unpack(gone))
    if has_id_index(q) then call('ZREM', q.ids, unpack(gone)) end
    for batch, many in pairs(of_batch) do leave_batch(q, batch, many) end
  end
  return stale
end

local function succeed(r, keep, now)
  if r.asked then return false end
  r.state, r.finished, r.expires = State.SUCCEEDED, now, now + keep
  r.stranded, r.extras = false, true
  return r
end

-- The live part of the successful runs of a batch; nil if they have not this token, or if their
-- shared live part cannot be read.
local function success_of_batch(q, batch, token, keep, now)
  local r = is_batch_of(batch, token) and live_of(q, batch, batch)
  return r and r.state == State.RUNNING and succeed(r, keep, now) and pack_live(r)
end

-- The live part of a successful run that has one of its own; nil if settle_one has to look at it.
local function success_alone(live, token, read)
  local tail, state, its_token, priority, due = read(live)
  if not tail or state ~= State.RUNNING or plain(its_token) ~= token then return nil end
  return join_live(State.SUCCEEDED, its_token, priority, due, tail)
end

-- Plain successes that are kept for a while; each item is a handle and a result. `tokens` as above.
local function settle_kept(q, tokens, from, n, verdict, keep, now)
  if not q.types_checked then
    for _, key in ipairs({ q.result, q.runs, q.left }) do call('HLEN', key) end
    for _, key in ipairs({ q.lease, q.succeeded, q.expiry }) do call('ZCARD', key) end
  end
  local args, ids, sub, i = ARGV, {}, string.sub, 0
  for at = 1, n do ids[at] = sub(args[from + at * 2 - 2], ID_AT) end
  local before = call('HMGET', q.live, unpack(ids))
  local lives, results, handles, ended, expiry, stale, of_batch = {}, {}, {}, {}, {}, {}, {}
  local ended_at, expires_at, m = plain(now), plain(now + keep), 0
  local read = by_tail(function(r) return succeed(r, keep, now) and tail_of(r) end)
  while i < n do
    local token, last, successes = args[tokens], i + args[tokens + 1], {}
    for at = i + 1, last do
      local handle, result = args[from + at * 2 - 2], args[from + at * 2 - 1]
      local live, id = before[at], ids[at]
      local is_of_batch, success = live and is_batch(live), nil
      if is_of_batch then
        success = successes[live] or success_of_batch(q, live, token, keep, now)
        successes[live] = success
      elseif live then
        success = success_alone(live, token, read)
      end
      if not success then
        if live and not q.types_checked then rare().check_used_types(q) end
        local is_done = live
          and rare().settle_one(q, id, token, cmsgpack.unpack(verdict), '+' .. result, now)
        if not is_done then stale[#stale + 1] = at end
      else
        m = m + 2
        if is_of_batch then
          of_batch[live] = (of_batch[live] or 0) + 1
        else
          handles[#handles + 1] = handle
        end
        lives[m - 1], lives[m] = id, success
        results[m - 1], results[m] = id, result
        ended[m - 1], ended[m] = ended_at, handle
        expiry[m - 1], expiry[m] = expires_at, handle
      end
    end
    i, tokens = last, tokens + 2
  end
  if m > 0 then
    if uses(q, LIMITED) then topics[q.name] = true end
    call('HSET', q.live, unpack(lives))
    call('HSET', q.result, unpack(results))
    if #handles > 0 then delete_later('ZREM', q.lease, handles) end
    call('ZADD', q.succeeded, unpack(ended))
    call('ZADD', q.expiry, unpack(expiry))
    for batch, many in pairs(of_batch) do leave_batch(q, batch, many) end
  end
  return stale
end
