-- The time.

local read_at -- the server's clock does not move while a script runs
local function microseconds()
  if not read_at then
    local time = call('TIME')
    read_at = time[1] * 1000000 + time[2]
  end
  return read_at
end

-- The time in milliseconds: the given one, or the server's for ''.
local function clock(given)
  return given ~= '' and tonumber(given) or math.floor(microseconds() / 1000)
end

-- A number as text. Redis would write it out with 17 digits each time.
local function plain(number) return string.format('%.0f', number) end
