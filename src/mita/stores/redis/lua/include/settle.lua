-- Putting jobs down. Each of the three ways gives back which of its items were stale.

-- What is taken out of `live` and `lease` goes at the end of the turn, when the next claims are in: a table that runs empty
-- and is filled again is made anew each time.
local last = {}
local function at_last(command, key, items) last[#last + 1] = { command, key, items } end

local function end_turn()
  for _, act in ipairs(last) do call(act[1], act[2], unpack(act[3])) end
end

-- One job, whatever it is and whatever was asked of it.
local function settle_one(q, id, token, verdict, result, now)
  local r = load(q, id)
  if not r or r.state ~= 'running' or r.token ~= tonumber(token) then return false end
  local state, wait, at, counts, error, keep, hold_wait, hold_at, stranded, event, text, failure, named =
    unpack(cmsgpack.unpack(verdict), 1, 13)
  if event == '' and r.asked then event = state end
  if event ~= '' then note(q, r, now, event, text, named or r.worker, failure) end
  r.stranded = stranded and (r.stranded or now) or false
  if counts then r[counts] = r[counts] + 1 end
  if error then keep_text(q, r, 'error', error) end
  if r.asked == 'cancel' then
    finish(q, r, 'cancelled', r.asked_keep, now)
  elseif r.asked ~= 'reschedule' and ENDED[state] then
    if state == 'succeeded' and result ~= '' then keep_text(q, r, 'result', result:sub(2)) end
    finish(q, r, state, keep, now)
  else
    leave(q, r)
    if r.asked then
      state, r.due = 'queued', r.asked_due
    elseif wait then
      r.due = moment(wait, at, now)
    end
    r.state, r.worker, r.asked, r.asked_due, r.asked_keep = state, false, false, false, false
    rung[q.name] = true
    stand(q, r)
    save(q, r)
  end
  if r.resource then
    if hold_wait then
      hold(q, r.resource, moment(hold_wait, hold_at, now), now)
    else
      wake(q, r.resource, now, 1)
    end
  end
  return true
end

-- How a run that has this live half is forgotten when it succeeds: with its batch, alone, or by `settle_one`. One without a
-- past, of which nobody asked anything, leaves nothing but two fields and a lease.
local function way_out(live, token)
  if is_batch(live) then return is_batch_of(live, token) and 'batch' or 'unlike' end
  local r = read_live(live)
  local simple = r and r.state == 'running' and plain(r.token) == token and not r.asked and not r.extras
  return simple and 'alone' or 'unlike'
end

-- Jobs that simply succeeded, forgotten at once: ids. `tokens` is the place of the first token, each followed by how many items
-- are under it.
local function settle_forgotten(q, tokens, from, n, verdict, now)
  if not q.sound then -- a key of another type must be found before the first write
    for _, key in ipairs({ q.jobs, q.runs, q.left }) do call('HLEN', key) end
    call('ZCARD', q.lease)
    if has_index(q) then call('ZCARD', q.ids) end
  end
  local args, gone, alone, of_batch, stale, m, i = ARGV, {}, {}, {}, {}, 0, 0
  local lives = call('HMGET', q.live, unpack(args, from, from + n - 1))
  while i < n do
    local token, last, ways = args[tokens], i + args[tokens + 1], {}
    for at = i + 1, last do
      local live, id = lives[at], args[from + at - 1]
      local way = live and (ways[live] or way_out(live, token))
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
        if live and not q.sound then sound_lines(sound(q)) end
        if not live or not settle_one(q, id, token, verdict, '', now) then stale[#stale + 1] = at end
      end
    end
    i, tokens = last, tokens + 2
  end
  if #alone > 0 then
    for j, fixed in ipairs(call('HMGET', q.jobs, unpack(alone))) do alone[j] = handle_in(fixed) end
    at_last('ZREM', q.lease, alone)
  end
  if m > 0 then
    at_last('HDEL', q.live, gone)
    call('HDEL', q.jobs, unpack(gone))
    if has_index(q) then call('ZREM', q.ids, unpack(gone)) end
    for batch, many in pairs(of_batch) do leave_batch(q, batch, many) end
  end
  return stale
end

-- What becomes of the runs that have this live half, if they hold under this token and nobody asked anything: many have the
-- same, so it is read and packed once. Without `live` it is one for `settle_one`.
local function success_of(q, half, token, keep, now)
  local batch = is_batch(half) and half
  local r = live_of(q, half, batch)
  if not r or r.state ~= 'running' or plain(r.token) ~= token then return { stale = true } end
  if r.asked then return {} end
  r.state, r.finished, r.expires, r.stranded, r.extras = 'succeeded', now, now + keep, false, true
  return { batch = batch, live = pack_live(r) }
end

-- Jobs that simply succeeded and are kept for a while: handle, result; `tokens` as above.
local function settle_kept(q, tokens, from, n, verdict, keep, now)
  if not q.sound then
    for _, key in ipairs({ q.result, q.runs, q.left }) do call('HLEN', key) end
    for _, key in ipairs({ q.lease, q.succeeded, q.expiry }) do call('ZCARD', key) end
  end
  local args, ids, sub, i = ARGV, {}, string.sub, 0
  for at = 1, n do ids[at] = sub(args[from + at * 2 - 2], 10) end
  local halves = call('HMGET', q.live, unpack(ids))
  local lives, results, handles, ended, expiry, stale, of_batch = {}, {}, {}, {}, {}, {}, {}
  local at_end, at_expiry, m = plain(now), plain(now + keep), 0
  while i < n do
    local token, last, successes = args[tokens], i + args[tokens + 1], {}
    for at = i + 1, last do
      local handle, result, half, id = args[from + at * 2 - 2], args[from + at * 2 - 1], halves[at], ids[at]
      local success = half and (successes[half] or success_of(q, half, token, keep, now))
      if half then successes[half] = success end
      if not half or success.stale then
        stale[#stale + 1] = at
      elseif not success.live then
        if not q.sound then sound_lines(sound(q)) end
        settle_one(q, id, token, verdict, '+' .. result, now)
      else
        m = m + 2
        if success.batch then of_batch[half] = (of_batch[half] or 0) + 1 else handles[#handles + 1] = handle end
        lives[m - 1], lives[m] = id, success.live
        results[m - 1], results[m] = id, result
        ended[m - 1], ended[m] = at_end, handle
        expiry[m - 1], expiry[m] = at_expiry, handle
      end
    end
    i, tokens = last, tokens + 2
  end
  if m > 0 then
    call('HSET', q.live, unpack(lives))
    call('HSET', q.result, unpack(results))
    if #handles > 0 then at_last('ZREM', q.lease, handles) end
    call('ZADD', q.succeeded, unpack(ended))
    call('ZADD', q.expiry, unpack(expiry))
    for batch, many in pairs(of_batch) do leave_batch(q, batch, many) end
  end
  return stale
end

-- Any jobs, one by one: id, token, verdict, result ('+' before it, '' for none).
local function settle_each(q, from, n, now)
  local stale = {}
  for i = 1, n do
    local at = from + i * 4 - 4
    if not settle_one(q, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], now) then stale[#stale + 1] = i end
  end
  return stale
end
