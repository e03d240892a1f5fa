-- What changes of a repeat: state, cursor, revision, count, last, reason, failures, pause_reason
-- (the last two are missing if an older version wrote it). `fires` has the active ones, sorted by
-- their cursor.

local function read_repeat(s, key)
  local text = call('HGET', s.repeats, key)
  if not text then return nil end
  local ok, t = pcall(cmsgpack.unpack, text)
  if not ok or type(t) ~= 'table' then return nil end
  if type(t[3]) ~= 'number' or type(t[4]) ~= 'number' then return nil end
  return {
    state = t[1], cursor = t[2], revision = t[3], count = t[4], last = t[5], reason = t[6],
    failures = type(t[7]) == 'number' and t[7] or 0, pause_reason = t[8] or '',
  }
end

local function write_repeat(s, key, r)
  local values = {
    r.state, r.cursor, r.revision, r.count, r.last, r.reason, r.failures or 0,
    r.pause_reason or '',
  }
  call('HSET', s.repeats, key, cmsgpack.pack(values))
  if r.state == RepeatState.ACTIVE and r.cursor then
    call('ZADD', s.fires, r.cursor, key)
  else
    call('ZREM', s.fires, key)
  end
end

-- A repeat as the client reads it: key, spec and what changes.
local function repeat_row(s, key)
  return { key, call('HGET', s.specs, key), call('HGET', s.repeats, key) }
end
