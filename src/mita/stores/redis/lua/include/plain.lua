-- Plain jobs of one queue that has had such jobs before: what nearly every enqueue brings. A script makes its functions anew
-- at every call, and those of the general way cost a lone job more than its commands do; so this stands before them. It
-- writes what `take_in` would write, or nothing: whatever is not as usual is left to the general way.

-- include clock
-- include calls
-- include putting
-- tails meta jobs ready queues

-- Whether any queue knows one of these ids, or nobody knows this queue.
local function is_known(root, registry, ids)
  local here, beginning = false, registry:sub(1, -3)
  for _, name in ipairs(call('SMEMBERS', registry .. QUEUES)) do
    local other = beginning .. name .. '}'
    here = here or other == root
    for _, found in ipairs(call('HMGET', other .. JOBS, unpack(ids))) do
      if found then return true end
    end
  end
  return not here
end

if #KEYS == 1 and ARGV[3] ~= '' and ARGV[6] == '2' and ARGV[8] == '' then
  local root, ids = KEYS[1], {}
  local list, meta = root .. READY .. '5', call('HMGET', root .. META, 'age', 'lines', 'now', 'index')
  local usual = meta[1] and (meta[2] or ''):find('5', 1, true) and tonumber(meta[3] or 0) <= now and not meta[4]
  for i = 9, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
  if usual and not is_known(root, ARGV[3], ids) then
    local q, line, refused = { fixed = {}, n = 0 }, { n = 0 }, {}
    local kind = { q = q, line = line, listed = true, flag = '0', head = head_of(now, now, 5) }
    ARGV.first = 9
    local age = put(kind, ARGV, 9, #ids, {}, refused, math.max(microseconds(), tonumber(meta[1])))
    call('RPUSH', list, unpack(line)) -- first, for it alone has not been looked at, and may be a key of another type
    call('HSET', root .. META, 'age', plain(age), 'now', plain(now))
    call('HSET', root .. JOBS, unpack(q.fixed))
    remember_call(calls, number, refused)
    call('PUBLISH', ARGV[2], root:match('{(.*)}$'))
    return #refused > 0 and { refused, 0 } or 0
  end
end
