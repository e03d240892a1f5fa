-- Changes of what a queue uses of flow control (see flow).

-- include flow

local function set_use(q, letter, is_used)
  if (uses(q, letter) and true or false) == is_used then return end
  q.flow = is_used and q.flow .. letter or q.flow:gsub(letter, '')
  if q.flow == '' then call('HDEL', q.meta, 'flow') else call('HSET', q.meta, 'flow', q.flow) end
end

-- Jobs that wait at this key, its holders or its rate have changed. In a queue with rates
-- `enter_wakes` (see gates) looks at it once, at the end of the script.
local function touch_key(q, key)
  if not uses(q, RATES) then return end
  q.touched_keys = q.touched_keys or {}
  q.touched_keys[key] = true
end
