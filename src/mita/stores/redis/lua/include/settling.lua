-- Putting jobs down. Each of the three ways gives back which of its items (handle, token, …) were stale.

-- Whether these claims hold and nobody asked anything: then what becomes of them is as plain as the verdict. Live halves are
-- alike for all first runs of one turn, so each text is read once.
local function holding(q, from, n, width)
  local ids, known, found = {}, {}, {}
  for i = 1, n do ids[i] = ARGV[from + (i - 1) * width]:sub(10) end
  local lives = call('HMGET', q.live, unpack(ids))
  for i = 1, n do
    local live = lives[i]
    local r = live and (known[live] or read_live(live))
    if r then
      known[live] = r
      if r.state == 'running' and r.token == tonumber(ARGV[from + (i - 1) * width + 1]) then found[i] = r end
    end
  end
  return ids, found, lives
end

-- One job, whatever it is and whatever was asked of it.
local function settle_one(q, handle, token, verdict, result, now)
  local r = load_handle(q, handle)
  if not r or r.state ~= 'running' or r.token ~= tonumber(token) then return false end
  local state, wait, at, counts, error, keep, hold_wait, hold_at, stranded, event, text = unpack(cmsgpack.unpack(verdict), 1, 11)
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
  local ids, found = holding(q, from, n, 2)
  local gone, handles, stale = {}, {}, {}
  for i = 1, n do
    local handle, r = ARGV[from + i * 2 - 2], found[i]
    if not r then
      stale[#stale + 1] = i
    elseif r.asked or r.extras then
      settle_one(q, handle, r.token, verdict, '', now)
    else
      gone[#gone + 1] = ids[i]
      handles[#handles + 1] = handle
    end
  end
  if #gone > 0 then
    call('HDEL', q.live, unpack(gone))
    call('ZREM', q.lease, unpack(handles))
    call('HDEL', q.jobs, unpack(gone))
    call('ZREM', q.ids, unpack(gone))
  end
  return stale
end

-- The live half of a job that ended well. Many have the same, so it is packed once.
local function succeeded(r, keep, now)
  if not r.ended then
    r.state, r.finished, r.expires, r.stranded, r.extras = 'succeeded', now, now + keep, false, true
    r.ended = pack_live(r)
  end
  return r.ended
end

-- Jobs that simply succeeded and are kept for a while: handle, token, result.
local function settle_kept(q, from, n, verdict, keep, now)
  local ids, found = holding(q, from, n, 3)
  local lives, results, handles, ended, expiry, stale = {}, {}, {}, {}, {}, {}
  local at_end, at_expiry = plain(now), plain(now + keep)
  for i = 1, n do
    local at, r = from + i * 3 - 3, found[i]
    if not r then
      stale[#stale + 1] = i
    elseif r.asked then
      settle_one(q, ARGV[at], r.token, verdict, '+' .. ARGV[at + 2], now)
    else
      local m = #handles * 2
      lives[m + 1], lives[m + 2] = ids[i], succeeded(r, keep, now)
      results[m + 1], results[m + 2] = ids[i], ARGV[at + 2]
      ended[m + 1], ended[m + 2] = at_end, ARGV[at]
      expiry[m + 1], expiry[m + 2] = at_expiry, ARGV[at]
      handles[#handles + 1] = ARGV[at]
    end
  end
  if #handles > 0 then
    call('HSET', q.live, unpack(lives))
    call('HSET', q.result, unpack(results))
    call('ZREM', q.lease, unpack(handles))
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
