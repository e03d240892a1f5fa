-- Making the fixed halves and the handles of new jobs (see include/record), and gathering them for one write.

-- include layout
local pack_struct, char = struct.pack, string.char

-- Adds to `fixed` and to `line` what stands among `items` from `first` to `last`, jobs of one kind, with `score` before each
-- handle if there is one; gives the age of the newest. Here a script that takes in many spends its time.
local function put(items, first, last, now, due, priority, flag, score, age, fixed, line)
  local m, l = #fixed, #line
  local high, length, beginning -- ages follow one another: all but the last byte is mostly that of the job before
  for i = first, last, 2 do
    local id = items[i]
    age = age + 1
    local low = age % 256
    if not high or low == 0 then high = pack_struct('>I8', age):sub(1, 7) end
    local handle = high .. char(low) .. flag .. id
    if length ~= #handle then
      length = #handle
      beginning = pack_struct(HEAD, 0x9f, 0xcf, now, 0xcf, due, priority, 0xc4, length)
    end
    fixed[m + 1], fixed[m + 2] = id, beginning .. handle .. items[i + 1]
    m = m + 2
    if score then
      l = l + 1
      line[l] = score
    end
    l = l + 1
    line[l] = handle
  end
  return age
end
