-- The answer to a call can be lost on its way. Made again under its number, it is not done again: a job that was run and
-- forgotten in between would be taken in a second time. A store's latest thousand calls are remembered for ten minutes, as
-- their number alone when there was nothing else to tell.

-- include clock
-- tails calls
local LIST_OF_TWO = 0x92

local function calls_of(root, store) return root .. CALLS .. store end

-- By the end of their number: text all the way, for numbers are slow to hand to a command.
local function place_of(number) return number:sub(-3) end

local function done_before(calls, number)
  local found = call('HGET', calls, place_of(number))
  if not found then return nil end
  if found == number then return {} end
  local record = found:byte() == LIST_OF_TWO and cmsgpack.unpack(found) or {}
  return record[1] == number and record[2] or nil
end

local function remember_call(calls, number, answer)
  local record = #answer == 0 and number or cmsgpack.pack({ number, answer })
  if call('HSET', calls, place_of(number), record) == 1 then call('PEXPIRE', calls, '600000') end
end
