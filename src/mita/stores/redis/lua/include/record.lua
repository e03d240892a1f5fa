-- The two halves of a job.
--
-- `jobs` holds what never changes, as one MessagePack array of 15, made here and read by the client:
--   created (uint64), due (uint64), priority (fixint), handle (bin), and then what the client packed:
--   task, resource, limit, when_busy, unique, unique_for, repeat, fire_time, payload, options, headers
-- `live` holds what changes. A job that was never touched has none: nothing is written twice on the common way. Jobs that
-- are on their first run and were claimed together have a batch there instead ('r', their token, and a number): `runs` holds
-- the live half that they share, and they have one lease. As soon as anything happens to one of them, it gets both of its own.
--
-- A handle is the job's place in every sorted set: its age (8 bytes, so that ties are broken by age), one digit that says
-- whether it has a resource key (1), a unique key (2) or both (3), and its id.

-- include clock
local MOST = 1000 -- items in one call, and jobs looked at in one claim
local TIMELINE = 50
local LOOKING = 600000 -- milliseconds for which the ids are kept in order after somebody looked at a page
local ENDED = { succeeded = true, failed = true, cancelled = true }

-- A moment as text. Redis would write a number out with 17 digits each time.
local function plain(number) return string.format('%.0f', number) end

local rung = {} -- topics to ring for when the script is done

local function moment(wait, at, now)
  if at then return math.max(now, at) end
  return now + wait
end

local ASKED, REPEATS = '!', '@' -- topics that are no queue's name

local function ring(channel)
  if next(rung) then
    local topics = {}
    for topic in pairs(rung) do topics[#topics + 1] = topic end
    call('PUBLISH', channel, table.concat(topics, '\n'))
  end
end

-- The priorities that a queue has ever used, as a text of digits: most use one or two, and the others need not be looked at.
local function lines(q)
  if not q.used then q.used = call('HGET', q.meta, 'lines') or '' end
  return q.used
end

local function use_line(q, priority)
  if not lines(q):find(priority, 1, true) then
    q.used = q.used .. priority
    call('HSET', q.meta, 'lines', q.used)
  end
end

-- Whether the ids of a queue are kept by name: only while somebody looks at its pages, for every job would pay for it.
local function has_index(q)
  if q.index == nil then q.index = call('HGET', q.meta, 'index') end
  return q.index
end

local function pack_live(r)
  return cmsgpack.pack({
    r.state, r.token, r.priority, r.due, r.attempts, r.reschedules, r.busy, r.interruptions, r.crashes, r.worker, r.started,
    r.asked, r.asked_due, r.asked_keep, r.stranded, r.finished, r.expires, r.extras,
  })
end

-- What the places of a live half may hold. One that holds anything else cannot be read.
local STATES = { queued = true, blocked = true, running = true, succeeded = true, failed = true, cancelled = true }
local COUNTS, MOMENTS = { 2, 5, 6, 7, 8, 9 }, { 3, 4, 11, 13, 14, 15, 16, 17 }
local EXACT = 9007199254740991

local function is_count(n) return type(n) == 'number' and n >= 0 and n <= EXACT and n % 1 == 0 end

-- nil for one that cannot be read
local function read_live(text)
  local ok, t = pcall(cmsgpack.unpack, text)
  if not ok or type(t) ~= 'table' or not STATES[t[1]] then return nil end
  for _, i in ipairs(COUNTS) do
    if not is_count(t[i]) then return nil end
  end
  for _, i in ipairs(MOMENTS) do
    if t[i] ~= false and not is_count(t[i]) then return nil end
  end
  return {
    state = t[1], token = t[2], priority = t[3], due = t[4], attempts = t[5], reschedules = t[6], busy = t[7],
    interruptions = t[8], crashes = t[9], worker = t[10], started = t[11], asked = t[12], asked_due = t[13],
    asked_keep = t[14], stranded = t[15], finished = t[16], expires = t[17], extras = t[18],
  }
end

local function untouched()
  return {
    state = 'queued', token = 0, priority = false, due = false, attempts = 0, reschedules = 0, busy = 0, interruptions = 0,
    crashes = 0, worker = false, started = false, asked = false, asked_due = false, asked_keep = false, stranded = false,
    finished = false, expires = false, extras = false,
  }
end

local BATCH = 114 -- 'r', with which no packed live half begins

local function is_batch(live) return live:byte() == BATCH end

local function is_batch_of(live, token)
  local beginning = 'r' .. token .. ':'
  return live:sub(1, #beginning) == beginning
end

-- The clock, or one more than the last: a server that dies may forget a claim that was not on disk yet, and hand the job out
-- again from the state before. A plain count would then give the same token to two runs, and either could put down the other.
local function next_token(last, now) return math.max(last + 1, now) end

-- The live half that the jobs of a batch share.
local function half_of(q, batch)
  q.halves = q.halves or {}
  if not q.halves[batch] then q.halves[batch] = call('HGET', q.runs, batch) end
  return q.halves[batch]
end

local function end_batch(q, batch)
  call('HDEL', q.runs, batch, '+' .. batch)
  call('HDEL', q.left, batch)
  call('ZREM', q.lease, batch)
end

-- The same for one whose list cannot be read: among all live halves.
local function searched(q, batch)
  local found, all = {}, call('HGETALL', q.live)
  for i = 1, #all, 2 do
    if all[i + 1] == batch then found[#found + 1] = all[i] end
  end
  return found
end

-- Those of a batch that still run under its lease.
local function members(q, batch)
  local found = {}
  local ok, ids = pcall(cmsgpack.unpack, call('HGET', q.runs, '+' .. batch) or '')
  if not ok or type(ids) ~= 'table' or #ids == 0 then return searched(q, batch) end
  local lives = call('HMGET', q.live, unpack(ids))
  for i, id in ipairs(ids) do
    if lives[i] == batch then found[#found + 1] = id end
  end
  return found
end

local function leave_batch(q, batch, n)
  local left = redis.pcall('HINCRBY', q.left, batch, -n)
  if type(left) ~= 'number' then -- it cannot be read
    left = #members(q, batch)
    call('HSET', q.left, batch, left)
  end
  if left <= 0 then end_batch(q, batch) end
end

local function handle_in(fixed) return fixed:sub(23, 22 + (fixed:byte(22) or 0)) end

-- The same of a record that may not be readable: then one is made, which names the job all the same.
local function handle_of(id, fixed)
  local handle = handle_in(fixed)
  return handle:sub(10) == id and handle or ('\0'):rep(8) .. '0' .. id
end

-- The live half of a record; of a batch whose own half cannot be read, what the name of the batch says.
local function live_of(q, live, batch)
  if not live then return untouched() end
  local r = read_live(batch and half_of(q, batch) or live)
  if r or not batch then return r end
  r = untouched()
  r.state, r.token, r.worker = 'running', tonumber(batch:match('^r(%d+):')), ''
  return r.token and r
end

-- What stands for a record that cannot be read: a failed job, of which only the id is sure.
local function lost(q, id, fixed, live)
  local r = untouched()
  r.id, r.fixed, r.handle, r.touched, r.unreadable = id, fixed, handle_of(id, fixed), live, true
  r.batch = live and is_batch(live) and live
  r.state, r.priority, r.due, r.finished, r.expires, r.extras = 'failed', 5, 0, 0, 0, true
  r.task, r.limit, r.when_busy, r.unique_for = '', 1, 'wait', 0
  return r
end

-- One table of both halves. `extras` says that something lies outside of them: events, memos, error, result, progress.
local function parsed(q, id, fixed, live)
  local batch = live and is_batch(live) and live
  local r = live_of(q, live, batch)
  r.id, r.fixed, r.handle, r.batch, r.touched = id, fixed, handle_in(fixed), batch, live
  if not r.priority then
    r.priority, r.due = fixed:byte(20), struct.unpack('>I8', fixed, 12)
  end
  local _
  _, r.task, r.resource, r.limit, r.when_busy, r.unique, r.unique_for, r.repeats =
    cmsgpack.unpack_limit(fixed, 7, 22 + fixed:byte(22))
  assert(r.handle:sub(10) == id and r.priority <= 9 and r.due <= EXACT and type(r.task) == 'string')
  assert(is_count(r.limit) and r.limit > 0 and is_count(r.unique_for) and type(r.when_busy) == 'string')
  assert(type(r.resource or '') == 'string' and type(r.unique or '') == 'string')
  assert(r.state ~= 'blocked' or r.resource)
  return r
end

local function as_record(q, id, fixed, live)
  local ok, r = pcall(parsed, q, id, fixed, live)
  return ok and r or lost(q, id, fixed, live)
end

local function load(q, id)
  local fixed = call('HGET', q.jobs, id)
  return fixed and as_record(q, id, fixed, call('HGET', q.live, id)) or nil
end

local function load_handle(q, handle)
  local r = load(q, handle:sub(10))
  if r and r.unreadable then r.handle = handle end
  return r
end

-- A running job that was one of a batch is on its own from here.
local function save(q, r)
  if r.batch then
    call('ZADD', q.lease, call('ZSCORE', q.lease, r.batch), r.handle)
    leave_batch(q, r.batch, 1)
    r.batch = false
  end
  call('HSET', q.live, r.id, pack_live(r))
end

local function keep_text(q, r, what, text)
  call('HSET', q[what], r.id, text)
  r.extras = true
end

-- the two oldest lines become one that counts them by kind, as rules.timeline has it
local function fold(events)
  local first, second = call('LPOP', events), call('LPOP', events)
  local ok, folded = pcall(function()
    local one, two = cmsgpack.unpack(first), cmsgpack.unpack(second)
    local counts = one[2] == 'folded' and cjson.decode(one[3]) or { [one[2]] = 1 }
    counts[two[2]] = (counts[two[2]] or 0) + 1
    return cmsgpack.pack({ two[1], 'folded', cjson.encode(counts), false })
  end)
  call('LPUSH', events, ok and folded or cmsgpack.pack({ 0, 'folded', '{"unreadable":2}', false }))
end

-- one line; of a failed run also the error, and when it was started
local function note(q, r, now, kind, text, worker, failure)
  local events, line = q.events .. r.id, { now, kind, text, worker or false }
  if failure and failure ~= '' then line[5], line[6] = failure, r.started or false end
  if call('RPUSH', events, cmsgpack.pack(line)) > TIMELINE then fold(events) end
  r.extras = true
end
