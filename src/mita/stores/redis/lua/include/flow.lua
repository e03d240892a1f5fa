-- What of flow control a queue uses, as a text of letters in its `meta`. Nearly all queues use
-- nothing of it, and pay for nothing.

local LIMITED = 'q' -- the queue has a limit
local KEY_LIMITS = 'k' -- a key has a limit that an operator has set
local RATES = 'r' -- a job with a rate has started, or waits
local GROUPS = 'g' -- a job with `fair` was enqueued

local function uses(q, letter)
  if not q.flow then q.flow = call('HGET', q.meta, 'flow') or '' end
  return q.flow ~= '' and q.flow:find(letter, 1, true)
end

local function set_use(q, letter, is_used)
  if (uses(q, letter) and true or false) == is_used then return end
  q.flow = is_used and q.flow .. letter or q.flow:gsub(letter, '')
  if q.flow == '' then call('HDEL', q.meta, 'flow') else call('HSET', q.meta, 'flow', q.flow) end
end

-- Jobs that wait at this key, its holders or its rate have changed. `enter_wakes` (see gates) looks
-- at it once, at the end of the script.
local function touch_key(q, key)
  q.touched_keys = q.touched_keys or {}
  q.touched_keys[key] = true
end
