-- The answer to a call can be lost on its way. Made again under its number, it is not done again: a job that was run and
-- forgotten in between would be taken in a second time. A store's latest thousand calls are remembered for ten minutes, as
-- their number alone when there was nothing else to tell, in a place that is the end of that number.

-- include clock
local LIST_OF_TWO = 0x92

local function done_before(calls, number)
  local found = call('HGET', calls, number:sub(-3))
  if not found then return nil end
  if found == number then return {} end
  local ok, record = pcall(cmsgpack.unpack, found)
  if not ok or found:byte() ~= LIST_OF_TWO then return nil end
  return record[1] == number and record[2] or nil
end

local function remember_call(calls, number, answer)
  local record = #answer == 0 and number or cmsgpack.pack({ number, answer })
  if call('HSET', calls, number:sub(-3), record) == 1 then call('PEXPIRE', calls, '600000') end
end
