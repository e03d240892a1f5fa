-- Settling runs whose job goes back to the queue, many at a time: retries, moves and sleeps of jobs
-- without keys. `v` is what the verdicts of a group share. A run of which something was asked is
-- settled by settle_one.

-- include live_tails

-- The values are in the order of `codec.pack_back`.
local function shared_verdict(packed)
  local v = {}
  v.counts, v.stranded, v.kind, v.is_at, v.has_error, v.priority =
    unpack(cmsgpack.unpack(packed), 1, 6)
  v.is_noted = v.kind ~= TimelineKind.NONE
  return v
end

-- The verdict on one job as settle_one takes it.
local function whole_verdict(v, when, text, error, failure)
  local wait, at = not v.is_at and when, v.is_at and when
  return { State.QUEUED, wait, at, v.counts, v.has_error and error, 0, false, false, v.stranded,
    v.kind, text, failure, false, false, false, false, false }
end

-- What becomes of the runs with one tail: the tail of the queued job, and who ran it since when.
local function tail_after(r, v, now)
  if r.asked then return false end
  local after = { worker = r.worker, started = r.started }
  r.worker, r.asked_due, r.asked_keep, r.blocked_at = false, false, false, false
  r.stranded = v.stranded and (r.stranded or now) or false
  if v.counts then r[v.counts] = r[v.counts] + 1 end
  r.extras = r.extras or v.has_error or v.is_noted
  after.tail = tail_of(r)
  return after
end

-- A function of a live part: what becomes of the run (nil if settle_one has to look at it), its
-- state, its token, and the priority of its job.
local function reader_of_runs(q, v, now)
  local read, batches = by_tail(function(r) return tail_after(r, v, now) end), {}
  return function(live)
    local of_batch = batches[live]
    if of_batch then return unpack(of_batch, 1, 4) end
    local shared = is_batch(live) and shared_live(q, live) or live
    local after, state, token, priority = read(shared)
    if shared ~= live then batches[live] = { after, state, token, v.priority } end
    return after, state, token, priority or v.priority
  end
end

-- What is written for a group at its end.
local function new_writes()
  return { lives = {}, errors = {}, leases = {}, batches = {}, due = {} }
end

local function add_due(w, priority, due, handle)
  local members = w.due[priority] or {}
  w.due[priority] = members
  members[#members + 1], members[#members + 2] = due, handle
end

local function add_run_end(w, live, handle)
  if is_batch(live) then
    w.batches[live] = (w.batches[live] or 0) + 1
  else
    w.leases[#w.leases + 1] = handle
  end
end

local function write_back(q, v, w)
  if #w.lives == 0 then return end
  call('HSET', q.live, unpack(w.lives))
  if v.has_error then call('HSET', q.error, unpack(w.errors)) end
  if #w.leases > 0 then call('ZREM', q.lease, unpack(w.leases)) end
  for priority, members in pairs(w.due) do
    use_priority(q, priority)
    call('ZADD', due_of(q, priority), unpack(members))
  end
  for batch, many in pairs(w.batches) do leave_batch(q, batch, many) end
  topics[q.name] = true
end

-- Each item is a handle, a delay or a point in time, the text of its line in the timeline, its
-- error, and the error in its line. ARGV[tokens] is the first token, each is followed by the number
-- of its items. Returns the positions of the settlements whose token was stale.
local function settle_back(q, tokens, from, n, packed, now)
  local args, v, w, ids, dues, stale = ARGV, shared_verdict(packed), new_writes(), {}, {}, {}
  for at = 1, n do ids[at] = args[from + at * 5 - 5]:sub(ID_AT) end
  local before, read, i = call('HMGET', q.live, unpack(ids)), reader_of_runs(q, v, now), 0
  while i < n do
    local token, last = tonumber(args[tokens]), i + args[tokens + 1]
    for at = i + 1, last do
      local id, live, first, m = ids[at], before[at], from + at * 5 - 5, #w.lives
      local handle, when, text, error, failure = unpack(args, first, first + 4)
      local after, state, its_token, priority
      if live then after, state, its_token, priority = read(live) end
      if after and state == State.RUNNING and its_token == token then
        local due = dues[when]
        if not due then
          local number = tonumber(when)
          due = moment(number, v.is_at and number, now)
          dues[when] = due
        end
        w.lives[m + 1] = id
        w.lives[m + 2] = join_live(State.QUEUED, token, priority, due, after.tail)
        w.errors[m + 1], w.errors[m + 2] = id, error
        add_due(w, priority, plain(due), handle)
        add_run_end(w, live, handle)
        if v.is_noted then
          add_line(q, id, now, v.kind, text, after.worker, failure, after.started)
        end
      elseif not live or after or not settle_one(q, id, token,
        whole_verdict(v, tonumber(when), text, error, failure), '', now) then
        stale[#stale + 1] = at
      end
    end
    i, tokens = last, tokens + 2
  end
  write_back(q, v, w)
  return stale
end
