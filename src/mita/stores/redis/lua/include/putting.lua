-- Making the fixed halves and the handles of new jobs (see include/record), and gathering them for one write.

local pack_struct, char = struct.pack, string.char

-- The beginning of a fixed half, up to the length of its handle.
local function head_of(now, due, priority) return pack_struct('>BBI8BI8BB', 0x9f, 0xcf, now, 0xcf, due, priority, 0xc4) end

-- Takes in what stands among `items` from `at` on, `n` jobs of one kind, and gives the age of the newest: here a script that
-- takes in many spends its time.
local function put(kind, items, at, n, known, refused, age)
  local q, line, unique, head, flag = kind.q, kind.line, kind.unique, kind.head, kind.flag
  local fixed, m, l, due = q.fixed, q.n, line.n, not kind.listed and kind.due
  local high, length, beginning -- ages follow one another: all but the last byte is mostly that of the job before
  for i = at, at + n * 2 - 2, 2 do
    local id = items[i]
    local there = known[id] and id or (unique and q.taken[unique])
    if there then
      refused[#refused + 1] = (i - items.first) / 2 + 1
      refused[#refused + 1] = there
    else
      age = age + 1
      local low = age % 256
      if not high or low == 0 then high = pack_struct('>I8', age):sub(1, 7) end
      local handle = high .. char(low) .. flag .. id
      if length ~= #handle then
        length = #handle
        beginning = head .. char(length)
      end
      fixed[m + 1], fixed[m + 2] = id, beginning .. handle .. items[i + 1]
      m = m + 2
      if due then
        l = l + 1
        line[l] = due
      end
      l = l + 1
      line[l] = handle
      known[id] = true
      if unique then q.taken[unique], q.uniques[unique] = id, id end
    end
  end
  q.n, line.n = m, l
  return age
end
