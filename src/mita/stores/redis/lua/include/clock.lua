-- What every script has: commands, and the moment.

local call = redis.call

local read_at -- the clock stands still while a script runs
local function microseconds()
  if not read_at then
    local time = call('TIME')
    read_at = time[1] * 1000000 + time[2]
  end
  return read_at
end

local function clock(given) return given ~= '' and tonumber(given) or math.floor(microseconds() / 1000) end
