-- Live parts: the part of a record that changes. `scripting/record_layout.py` draws its bytes.

-- include clock
-- include states
-- include live_code
-- include batches
-- include numbers

-- The fields of a live part; nil for one that cannot be read. A shorter one is of an older version.
local function read_live(text)
  local ok, t = pcall(cmsgpack.unpack, text)
  if not ok or type(t) ~= 'table' or not STATES[t[1]] then return nil end
  if #t < OLDEST_LIVE_FIELDS then return nil end
  if #t < NEWEST_LIVE_FIELDS then
    local defaults = LIVE_DEFAULTS
    for i = #t + 1, #defaults do t[i] = defaults[i] end
  end
  for _, i in ipairs(LIVE_NUMBERS) do
    if not is_number(t[i]) then return nil end
  end
  for _, i in ipairs(LIVE_NUMBERS_OR_FALSE) do
    if t[i] ~= false and not is_number(t[i]) then return nil end
  end
  local priority = t[PRIORITY_FIELD]
  if priority ~= false and not is_priority(priority) then return nil end
  return live_fields(t)
end

local function handle_in(fixed)
  return fixed:sub(HANDLE_AT, HANDLE_LENGTH_AT + (fixed:byte(HANDLE_LENGTH_AT) or 0))
end

-- The fields of a live part. If the shared live part of a batch cannot be read, the name of the
-- batch still says the token.
local function live_of(q, live, batch)
  if not live then return untouched() end
  local r = read_live(batch and shared_live(q, batch) or live)
  if r or not batch then return r end
  r = untouched()
  r.state, r.token, r.worker = State.RUNNING, tonumber(batch:match('^r(%d+):')), ''
  return r.token and r
end
