-- Calls that arrive twice. The answer to a call can be lost, and the client sends the call again
-- with the same number. It must not be done again: a job that was run and deleted in between would
-- be stored a second time. The latest thousand calls of a store are kept in a hash, under the last
-- three digits of their number: as the number alone if the answer was empty, else with the answer.

-- include clock
local LIST_OF_TWO = 0x92

-- The answer to this call if it was done before; nil if it was not.
local function answer_before(calls, number)
  local found = call('HGET', calls, number:sub(-3))
  if not found then return nil end
  if found == number then return {} end
  local ok, record = pcall(cmsgpack.unpack, found)
  if not ok or found:byte() ~= LIST_OF_TWO then return nil end
  return record[1] == number and record[2] or nil
end

local function remember_call(calls, number, answer)
  local record = #answer == 0 and number or cmsgpack.pack({ number, answer })
  if call('HSET', calls, number:sub(-3), record) == 1 then
    call('PEXPIRE', calls, CALL_RETENTION_MS)
  end
end
