-- Live parts that are changed many at a time. Those of jobs that do the same at the same time
-- differ in their first four fields only: state, token, priority and due time. The bytes behind
-- these, the tail, are read and packed once for all of them.

-- include live

-- State, token, priority, due time and tail of a live part. nil for one of an older version, of a
-- failed job with a group, or one that cannot be read.
local function split_live(live)
  if live:sub(1, LIVE_START_BYTES) ~= LIVE_START then return nil end
  local ok, at, state, token, priority, due =
    pcall(cmsgpack.unpack_limit, live, 4, LIVE_START_BYTES)
  if not ok or not is_number(token) or (due and not is_number(due)) then return nil end
  if priority and not is_priority(priority) then return nil end
  return state, token, priority, due, live:sub(at + 1)
end

local function join_live(state, token, priority, due, tail)
  return LIVE_START .. cmsgpack.pack(state, token, priority, due) .. tail
end

local function tail_of(r)
  local live = pack_live(r)
  return live:sub(cmsgpack.unpack_limit(live, 4, LIVE_START_BYTES) + 1)
end

-- A function that returns, for a live part: what `change` returns for the fields of all live parts
-- with its tail, and its state, token, priority and due time. nil if `change` returns false, or if
-- the live part cannot be split: then the general path has to look at the job.
local function by_tail(change)
  local known = {}
  return function(live)
    local state, token, priority, due, tail = split_live(live)
    if not state then return nil end
    local found = known[tail]
    if found == nil then
      local r = read_live(live)
      found = r and change(r) or false
      known[tail] = found
    end
    return found or nil, state, token, priority, due
  end
end
