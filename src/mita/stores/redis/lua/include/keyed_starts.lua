-- Starting jobs with one key, many at a time: a resource key with a limit, or a rate. Whether a job
-- may start is decided at once, from what is known of its key. What is written is collected, and
-- `write_keys` writes it. `c` is the claim call (see claim). Where an operator has limited or held
-- a key, jobs are started one by one (see start_one).

-- include restart

-- What a claim has decided and not written yet.
local function new_key_writes()
  return {
    keys = {}, holders = {}, rates = {}, lives = {}, blocked = {}, waited = {}, waiting = {},
  }
end

-- What a fixed part says of the key of its job: `key`, its `limit` or its rate (`gate`), and what
-- decides where the job waits. An error if the record cannot be read.
local function read_key(id, fixed, flag)
  local r, at = {}, client_fields_at(fixed)
  read_client_fields(r, fixed, at)
  r.id, r.handle = id, handle_in(fixed)
  r.due, r.priority = struct.unpack(DUE_AND_PRIORITY_FORMAT, fixed, DUE_AT)
  assert(r.handle:sub(ID_AT) == id and type(r.task) == 'string')
  assert(is_priority(r.priority) and r.due <= LARGEST_NUMBER)
  assert(is_number(r.limit) and r.limit > 0 and is_number(r.unique_for))
  assert(type(r.when_busy) == 'string' and type(r.unique or '') == 'string')
  if flag % 8 < 4 then
    assert(type(r.resource) == 'string')
    r.key = r.resource
    return r
  end
  read_flow(r, fixed, at)
  assert(#r.gates == 1 and not r.resource and not r.gates[1][2] and r.gates[1][3] > 0)
  local key, _, interval, burst = unpack(r.gates[1])
  r.key, r.gate = key, { key = key, interval = interval, burst = burst }
  return r
end

local function holder_count(q, key)
  q.holder_counts = q.holder_counts or {}
  local count = q.holder_counts[key] or call('SCARD', q.holders .. key)
  q.holder_counts[key] = count
  return count
end

-- Take a token for one start, if there is one. The numbers are kept in `w` until they are written.
local function take_token(q, gate, now, w)
  local g, key = gates(), gate.key
  local level = w.rates[key] or g.level(q, key) or { 0, 0 }
  local tat = g.bounded_level(gate, level[1], now)
  if g.tokens(gate, tat, now) <= 0 then return false end
  local woken = g.bounded_level(gate, level[2], now)
  tat = g.after_starts(gate, tat, now, 1)
  w.rates[key] = { tat, math.max(woken, tat), gate = gate }
  return true
end

-- The live part of a job that starts; nil if the general path has to look at it. For a job that has
-- run or waited before, it is also what the client gets.
local function live_at_start(c, id, live)
  if not live then return c.first_live end
  local found, state, last, priority, due = running_tail(c)(live)
  if not found or state ~= State.QUEUED or not priority or not due then return nil end
  local row = { #c.fixed + 1, false, false }
  row[2] = join_live(State.RUNNING, next_token(last, c.now), priority, due, found.tail)
  return row[2], row, found.extras
end

-- The live part of a job that has to wait for the first time. The key is its last field; what is
-- before it is the same for all of them.
local function first_live_waiting(c, r)
  if not c.waiting_tail then
    local first = untouched()
    first.busy, first.extras = first.busy + 1, true
    c.waiting_tail, c.first_token = tail_of(first):sub(1, -2), first.token
  end
  local tail = c.waiting_tail .. cmsgpack.pack(r.key)
  return join_live(State.BLOCKED, c.first_token, r.priority, r.due, tail)
end

-- The same for a job that has run or waited before. It also gets the priority and the due time that
-- it has now. nil if it cannot be read.
local function later_live_waiting(q, r, fixed, live)
  local whole = as_record(q, r.id, fixed, live)
  if whole.unreadable then return nil end
  whole.busy, whole.extras = whole.busy + 1, true
  whole.state, whole.blocked_at = State.BLOCKED, r.key
  r.priority, r.due = whole.priority, whole.due
  return pack_live(whole)
end

-- A job has to wait at its key. Returns false if its busy policy says something else.
local function wait_at(q, c, r, fixed, live, w)
  if r.when_busy ~= WhenBusy.WAIT then return false end
  local waiting
  if live then
    waiting = later_live_waiting(q, r, fixed, live)
  else
    waiting = first_live_waiting(c, r)
  end
  if not waiting then return false end
  c.wait_line = c.wait_line or (BUSY_POLICIES)[WhenBusy.WAIT].line
  busy[#busy + 1] = { q.name, r.id, r.task, 0, 0, 0 }
  local key, m = r.key, #w.lives
  note(q, r, c.now, c.wait_line, key .. BUSY_NOTE)
  local members = w.waiting[key] or {}
  w.lives[m + 1], w.lives[m + 2] = r.id, waiting
  w.blocked[m + 1], w.blocked[m + 2] = '0', r.handle
  if #members == 0 then w.waiting[key], w.waited[#w.waited + 1] = members, key end
  members[#members + 1], members[#members + 2] = plain(waiting_score(r)), r.handle
  c.turned_away = c.turned_away + 1
  return true
end

-- Start a job with one key, or let it wait. Returns false, and changes nothing, if the general path
-- has to look at it.
local function start_keyed(q, c, id, fixed, live, handle, flag, w, lives, leases)
  if q.has_holds or (q.flow ~= '' and uses(q, KEY_LIMITS)) then return false end
  local ok, r = pcall(read_key, id, fixed, flag)
  if not ok then return false end
  local key = r.key
  local its_live, row, has_extras = live_at_start(c, id, live)
  if not its_live then return false end
  if r.gate then
    if not take_token(q, r.gate, c.now, w) then return false end
  else
    local count = holder_count(q, key)
    if count >= r.limit then return wait_at(q, c, r, fixed, live, w) end
    q.holder_counts[key] = count + 1
  end
  local m, holders = #lives, w.holders[key] or {}
  if #holders == 0 then w.holders[key], w.keys[#w.keys + 1] = holders, key end
  holders[#holders + 1] = handle
  if row then c.touched[#c.touched + 1] = row end
  if has_extras then c.unread[#c.unread + 1], c.unread_ids[#c.unread_ids + 1] = row, id end
  lives[m + 1], lives[m + 2] = id, its_live
  leases[m + 1], leases[m + 2] = c.lease, handle
  c.fixed[#c.fixed + 1] = fixed
  return true
end

-- Write what was decided.
local function write_keys(q, w)
  for key, handles in pairs(w.holders) do call('SADD', q.holders .. key, unpack(handles)) end
  if #w.keys > 0 then call('SADD', q.held, unpack(w.keys)) end
  for key, members in pairs(w.waiting) do call('ZADD', q.waiting .. key, unpack(members)) end
  if #w.lives > 0 then
    call('SADD', q.waited, unpack(w.waited))
    call('ZADD', q.blocked, unpack(w.blocked))
    call('HSET', q.live, unpack(w.lives))
  end
  for _, level in pairs(w.rates) do gates().set_level(q, level.gate, level[1], level[2]) end
  if q.flow ~= '' then
    for _, key in ipairs(w.keys) do touch_key(q, key) end
    for _, key in ipairs(w.waited) do touch_key(q, key) end
  end
end
