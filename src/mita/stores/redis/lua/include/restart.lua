-- Starting jobs that have run before and have no keys, many at a time. `c` is the claim call (see
-- claim).

-- include live_tails

-- A function of a live part: the tail that its job has while it runs, and whether it has extras
-- (see live_tails).
local function running_tail(c)
  c.running_tail = c.running_tail or by_tail(function(r)
    r.worker, r.started = c.worker, c.now
    return { tail = tail_of(r), extras = r.extras }
  end)
  return c.running_tail
end

-- Start one job. Appends to `lives` and `leases` what is to be written. `read_progress` reads the
-- progress of all of them at the end.
local function restart(q, c, id, fixed, live, handle, lives, leases)
  local found, state, last, priority, due = running_tail(c)(live)
  if not found or state ~= State.QUEUED or not priority or not due then
    return start_or_block(q, c, id, fixed, live, handle, lives, leases)
  end
  local token, m = next_token(last, c.now), #lives
  local now_live = join_live(State.RUNNING, token, priority, due, found.tail)
  local row = { #c.fixed + 1, now_live, false }
  c.touched[#c.touched + 1] = row
  if found.extras then c.unread[#c.unread + 1], c.unread_ids[#c.unread_ids + 1] = row, id end
  lives[m + 1], lives[m + 2] = id, now_live
  leases[m + 1], leases[m + 2] = c.lease, handle
  c.fixed[#c.fixed + 1] = fixed
end

local function read_progress(q, c)
  if call('EXISTS', q.progress) == 1 then
    local found = call('HMGET', q.progress, unpack(c.unread_ids))
    for i, row in ipairs(c.unread) do row[3] = found[i] end
  end
  c.unread, c.unread_ids = {}, {}
end
