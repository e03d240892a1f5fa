-- Putting jobs down. Each of the three ways gives back which of its items (handle, token, …) were stale.

-- What is taken out of `live` and `lease` goes at the end of the turn, when the next claims are in: a table that runs empty
-- and is filled again is made anew each time.
local last = {}
local function at_last(command, key, items) last[#last + 1] = { command, key, items } end

local function end_turn()
  for _, act in ipairs(last) do call(act[1], act[2], unpack(act[3])) end
end

-- Whether these claims hold and nobody asked anything: then what becomes of them is as plain as the verdict. Live halves are
-- alike for all first runs of one turn, so each text is read once.
local function holding(q, from, n, width)
  local args, ids, known, found, sub = ARGV, {}, {}, {}, string.sub
  for i = 1, n do ids[i] = sub(args[from + (i - 1) * width], 10) end
  local lives = call('HMGET', q.live, unpack(ids))
  for i = 1, n do
    local live = lives[i]
    if live then
      local r = known[live]
      if not r then
        r = read_live(live)
        r.token_text = plain(r.token)
        known[live] = r
      end
      if r.token_text == args[from + (i - 1) * width + 1] and r.state == 'running' then found[i] = r end
    end
  end
  return ids, found
end

-- One job, whatever it is and whatever was asked of it.
local function settle_one(q, handle, token, verdict, result, now)
  local r = load_handle(q, handle)
  if not r or r.state ~= 'running' or r.token ~= tonumber(token) then return false end
  local state, wait, at, counts, error, keep, hold_wait, hold_at, stranded, event, text =
    unpack(cmsgpack.unpack(verdict), 1, 11)
  if event == '' and r.asked then event = state end
  if event ~= '' then note(q, r, now, event, text, r.worker) end
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

-- Jobs that simply succeeded, forgotten at once: handle, token.
local function settle_forgotten(q, from, n, verdict, now)
  if not q.sound then -- a key of another type must be found before the first write
    call('HLEN', q.jobs)
    call('ZCARD', q.ids)
    call('ZCARD', q.lease)
  end
  local ids, found = holding(q, from, n, 2)
  local args, gone, handles, stale, m = ARGV, {}, {}, {}, 0
  for i = 1, n do
    local handle, r = args[from + i * 2 - 2], found[i]
    if not r then
      stale[#stale + 1] = i
    elseif r.asked or r.extras then
      if not q.sound then sound(q) end
      settle_one(q, handle, r.token, verdict, '', now)
    else
      m = m + 1
      gone[m], handles[m] = ids[i], handle
    end
  end
  if m > 0 then
    at_last('HDEL', q.live, gone)
    at_last('ZREM', q.lease, handles)
    call('HDEL', q.jobs, unpack(gone))
    call('ZREM', q.ids, unpack(gone))
  end
  return stale
end

-- The live half of a job that ended well. Many have the same, so it is packed once.
local function succeeded(r, keep, now)
  r.state, r.finished, r.expires, r.stranded, r.extras = 'succeeded', now, now + keep, false, true
  r.ended = pack_live(r)
  return r.ended
end

-- Jobs that simply succeeded and are kept for a while: handle, token, result.
local function settle_kept(q, from, n, verdict, keep, now)
  if not q.sound then
    call('HLEN', q.result)
    for _, key in ipairs({ q.lease, q.succeeded, q.expiry }) do call('ZCARD', key) end
  end
  local ids, found = holding(q, from, n, 3)
  local lives, results, handles, ended, expiry, stale = {}, {}, {}, {}, {}, {}
  local args, at_end, at_expiry, m = ARGV, plain(now), plain(now + keep), 0
  for i = 1, n do
    local at, r = from + i * 3 - 3, found[i]
    if not r then
      stale[#stale + 1] = i
    elseif r.asked then
      if not q.sound then sound(q) end
      settle_one(q, args[at], r.token, verdict, '+' .. args[at + 2], now)
    else
      local handle, id = args[at], ids[i]
      handles[m / 2 + 1] = handle
      m = m + 2
      lives[m - 1], lives[m] = id, r.ended or succeeded(r, keep, now)
      results[m - 1], results[m] = id, args[at + 2]
      ended[m - 1], ended[m] = at_end, handle
      expiry[m - 1], expiry[m] = at_expiry, handle
    end
  end
  if m > 0 then
    call('HSET', q.live, unpack(lives))
    call('HSET', q.result, unpack(results))
    at_last('ZREM', q.lease, handles)
    call('ZADD', q.succeeded, unpack(ended))
    call('ZADD', q.expiry, unpack(expiry))
  end
  return stale
end

-- Any jobs, one by one: handle, token, verdict, result ('+' before it, '' for none).
local function settle_each(q, from, n, now)
  local stale = {}
  for i = 1, n do
    local at = from + i * 4 - 4
    if not settle_one(q, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], now) then stale[#stale + 1] = i end
  end
  return stale
end
