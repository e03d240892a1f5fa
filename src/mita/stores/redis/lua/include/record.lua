-- Job records. `scripting/record_layout.py` draws the bytes of the two parts of a job.
--
-- A script works with one table `r` for both parts: all fields, and
--   fixed       the bytes of the fixed part
--   touched     the bytes of the live part, or the name of a batch; false for a job without one
--   batch       the name of the batch that it is in, or false
--   handle      how lists and sorted sets name the job: age, flag and id
--   unreadable  true if the record cannot be read; then only the id is sure

-- include live
-- include client_code

-- The handle of a record that may not be readable: then one is made up that names the job.
local function handle_of(id, fixed)
  local handle = handle_in(fixed)
  return handle:sub(ID_AT) == id and handle or ('\0'):rep(8) .. '0' .. id
end

-- The token of the next claim: the time, or one more than the last token. A server that dies may
-- lose a claim that was not on disk yet, and hand the job out again from the state before. A plain
-- counter would then give the same token to two runs, and each could settle the other's claim.
local function next_token(last, now) return math.max(last + 1, now) end

-- What stands for a record that cannot be read: a failed job.
local function unreadable_record(q, id, fixed, live)
  local r = untouched()
  r.id, r.fixed, r.handle, r.touched, r.unreadable = id, fixed, handle_of(id, fixed), live, true
  r.batch = live and is_batch(live) and live
  r.state, r.priority, r.due = State.FAILED, DEFAULT_PRIORITY, 0
  r.finished, r.expires, r.extras = 0, 0, true
  r.task, r.limit, r.when_busy, r.unique_for = '', 1, WhenBusy.WAIT, 0
  return r
end

-- Where the bytes end that begin behind this position: payload, options or headers. The server's
-- MessagePack cannot read bytes.
local function end_of_bytes(text, at)
  local size = text:byte(at + 1) - HEAD_BYTES
  if size == 0 then return at + 2 + text:byte(at + 2) end
  assert(size == 1 or size == 2)
  return at + 1 + size * 2 + struct.unpack(size == 1 and '>I2' or '>I4', text, at + 2)
end

-- Where payload, options and headers of a record begin and end. `at` is where its client's fields
-- begin.
local function arguments_in(text, at)
  local first = cmsgpack.unpack_limit(text, FIELDS_BEFORE_PAYLOAD, at)
  return first, end_of_bytes(text, end_of_bytes(text, end_of_bytes(text, first)))
end

-- Read the gates and the group of a job whose flag says that it has some. `gates` stays nil if
-- there are none.
local function read_flow(r, fixed, at)
  local _, behind = arguments_in(fixed, at)
  read_flow_fields(r, fixed, behind)
  for _, gate in ipairs(r.gates) do
    assert(type(gate[1]) == 'string' and (not gate[2] or is_number(gate[2])))
    assert(is_number(gate[3]) and is_number(gate[4]) and gate[4] > 0)
  end
  if #r.gates == 0 then r.gates = nil end
  if r.fair == '' then r.fair = nil end
  assert(type(r.fair or '') == 'string' and is_number(r.weight) and r.weight > 0)
end

-- Where the client's fields begin: inside an array, or in version 0.1 right behind the handle.
local function client_fields_at(fixed)
  local at = HANDLE_LENGTH_AT + fixed:byte(HANDLE_LENGTH_AT)
  if fixed:byte() == OLD_ARRAY then return at end
  return fixed:byte(at + 1) == LONG_ARRAY and at + 3 or at + 1
end

local function parsed(q, id, fixed, live)
  local batch = live and is_batch(live) and live
  local r = live_of(q, live, batch)
  r.id, r.fixed, r.handle, r.batch, r.touched = id, fixed, handle_in(fixed), batch, live
  if not r.priority then
    r.due, r.priority = struct.unpack(DUE_AND_PRIORITY_FORMAT, fixed, DUE_AT)
  end
  local at = client_fields_at(fixed)
  read_client_fields(r, fixed, at)
  if r.handle:byte(FLAG_AT) >= FIRST_FLOW_FLAG then read_flow(r, fixed, at) end
  assert(r.handle:sub(ID_AT) == id and type(r.task) == 'string')
  assert(is_priority(r.priority) and r.due <= LARGEST_NUMBER)
  assert(is_number(r.limit) and r.limit > 0 and is_number(r.unique_for))
  assert(type(r.when_busy) == 'string')
  assert(type(r.resource or '') == 'string' and type(r.unique or '') == 'string')
  assert(type(r.group or '') == 'string')
  if r.state == State.BLOCKED then -- before 0.2 a job could only wait at its resource key
    r.blocked_at = r.blocked_at or r.resource
    assert(type(r.blocked_at) == 'string')
  end
  return r
end

local function as_record(q, id, fixed, live)
  local ok, r = pcall(parsed, q, id, fixed, live)
  return ok and r or unreadable_record(q, id, fixed, live)
end

-- The record of a job; nil without such a job.
local function load(q, id)
  local fixed = call('HGET', q.jobs, id)
  return fixed and as_record(q, id, fixed, call('HGET', q.live, id)) or nil
end

local function load_handle(q, handle)
  local r = load(q, handle:sub(ID_AT))
  if r and r.unreadable then r.handle = handle end
  return r
end

-- Whether a run under this token still has the job.
local function has_token(r, token)
  return r and r.state == State.RUNNING and r.token == tonumber(token)
end

-- Write the live part. A job that was in a batch leaves it and gets a lease of its own.
local function save(q, r)
  if r.batch then
    call('ZADD', q.lease, call('ZSCORE', q.lease, r.batch), r.handle)
    leave_batch(q, r.batch, 1)
    r.batch = false
  end
  call('HSET', q.live, r.id, pack_live(r))
end

-- Write a text of the job into a hash of its own: 'error', 'result' or 'progress'.
local function keep_text(q, r, hash, text)
  call('HSET', q[hash], r.id, text)
  r.extras = true
end
