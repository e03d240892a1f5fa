-- Whether a value is a whole number that a double holds exactly.
local function is_number(n)
  return type(n) == 'number' and n >= 0 and n <= LARGEST_NUMBER and n % 1 == 0
end

local function is_priority(n)
  return type(n) == 'number' and n >= LOWEST_PRIORITY and n <= HIGHEST_PRIORITY and n % 1 == 0
end

-- Eight bytes as a number; 0 if there are fewer.
local function number_at(text, at)
  return #text >= at + 7 and struct.unpack('>I8', text, at) or 0
end
