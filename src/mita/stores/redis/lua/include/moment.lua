-- The point in time that a delay or a point in time means; never in the past.
local function moment(wait, at, now)
  if at then return math.max(now, at) end
  return now + wait
end
