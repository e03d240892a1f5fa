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

-- How a successful run with this live part is deleted: with its batch, 'alone', or by `settle_one`
-- ('special'). A run without a past, of which nothing was asked, leaves nothing but two values and
-- a lease.
local function way_to_delete(live, token)
  if is_batch(live) then return is_batch_of(live, token) and 'batch' or 'special' end
  local r = read_live(live)
  local running = r and r.state == State.RUNNING and plain(r.token) == token
  return running and not r.asked and not r.extras and 'alone' or 'special'
end

-- Plain successes that are deleted at once; each item is an id. ARGV[tokens] is the first token,
-- each is followed by the number of its items.
local function settle_forgotten(q, tokens, from, n, verdict, now)
  if not q.types_checked then -- a key of another type must be found before the first write
    for _, key in ipairs({ q.jobs, q.runs, q.left }) do call('HLEN', key) end
    call('ZCARD', q.lease)
    if has_id_index(q) then call('ZCARD', q.ids) end
  end
  local args, gone, alone, of_batch, stale, m, i = ARGV, {}, {}, {}, {}, 0, 0
  local lives = call('HMGET', q.live, unpack(args, from, from + n - 1))
  while i < n do
    local token, last, ways = args[tokens], i + args[tokens + 1], {}
    for at = i + 1, last do
      local live, id = lives[at], args[from + at - 1]
      local way = live and (ways[live] or way_to_delete(live, token))
      if live then ways[live] = way end
      if way == 'batch' then
        m = m + 1
        gone[m] = id
        of_batch[live] = (of_batch[live] or 0) + 1
      elseif way == 'alone' then
        m = m + 1
        gone[m] = id
        alone[#alone + 1] = id
      else
        if live and not q.types_checked then rare().check_used_types(q) end
        if not live or not rare().settle_one(q, id, token, verdict, '', now) then
          stale[#stale + 1] = at
        end
      end
    end
    i, tokens = last, tokens + 2
  end
  if #alone > 0 then
    for j, fixed in ipairs(call('HMGET', q.jobs, unpack(alone))) do alone[j] = handle_in(fixed) end
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

-- What becomes of the successful runs with this live part. Many runs share it, so it is read and
-- packed once. Returns `stale`, or the new `live` part and the `batch`; without `live` something
-- was asked, and `settle_one` must settle the job.
local function success_of(q, live, token, keep, now)
  local batch = is_batch(live) and live
  local r = live_of(q, live, batch)
  if not r or r.state ~= State.RUNNING or plain(r.token) ~= token then return { stale = true } end
  if r.asked then return {} end
  r.state, r.finished, r.expires = State.SUCCEEDED, now, now + keep
  r.stranded, r.extras = false, true
  return { batch = batch, live = pack_live(r) }
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
  while i < n do
    local token, last, successes = args[tokens], i + args[tokens + 1], {}
    for at = i + 1, last do
      local handle, result = args[from + at * 2 - 2], args[from + at * 2 - 1]
      local live, id = before[at], ids[at]
      local success = live and (successes[live] or success_of(q, live, token, keep, now))
      if live then successes[live] = success end
      if not live or success.stale then
        stale[#stale + 1] = at
      elseif not success.live then
        if not q.types_checked then rare().check_used_types(q) end
        rare().settle_one(q, id, token, verdict, '+' .. result, now)
      else
        m = m + 2
        if success.batch then
          of_batch[live] = (of_batch[live] or 0) + 1
        else
          handles[#handles + 1] = handle
        end
        lives[m - 1], lives[m] = id, success.live
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
