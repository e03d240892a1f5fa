-- Building the fixed parts and the handles of new jobs (see `scripting/record_layout.py`).

local pack_struct, char = struct.pack, string.char

-- For the jobs of one kind that are in `items` from `first` to `last` (id, client's fields), append
-- to `fixed` id and fixed part, and to `index` the handle, after its `score` if there is one.
-- Returns the age of the newest job. A script that inserts many jobs spends its time here.
local function build_records(kind, items, first, last, now, age, fixed, index)
  local due, priority, flag, score = kind.due, kind.priority, kind.flag, kind.score
  local m, l = #fixed, #index
  local high, length, head -- ages count up: mostly only the last byte differs from the job before
  for i = first, last, 2 do
    local id = items[i]
    age = age + 1
    local low = age % 256
    if not high or low == 0 then high = pack_struct(AGE_FORMAT, age):sub(1, 7) end
    local handle = high .. char(low) .. flag .. id
    if length ~= #handle then
      length = #handle
      head = pack_struct(HEAD_FORMAT,
        HEAD_ARRAY, HEAD_UINT64, now, HEAD_UINT64, due, priority, HEAD_BYTES, length)
    end
    fixed[m + 1], fixed[m + 2] = id, head .. handle .. items[i + 1]
    m = m + 2
    if score then
      l = l + 1
      index[l] = score
    end
    l = l + 1
    index[l] = handle
  end
  return age
end
