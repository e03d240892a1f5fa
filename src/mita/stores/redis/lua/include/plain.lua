-- Plain jobs that nobody else can know (see `NewJob.fresh`), of one queue that has had such jobs before: what nearly every
-- enqueue brings. A script makes its functions anew at every call, and those of the general way cost a lone job more than its
-- commands do; so this stands before them. It writes what `take_in` would write, or nothing: whatever is not as usual is left
-- to the general way. A fresh id is looked for all the same, in its own queue: what was sent on a connection that was given up
-- can reach the server after it was sent again on another.

-- include clock
-- include calls
-- include putting
-- tails meta jobs ready

if fresh and ARGV[7] == '0' then
  local root, ids, fixed, line = KEYS[1], {}, {}, {}
  for i = 8, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
  local meta = call('HMGET', root .. META, 'newest', 'lines', 'index')
  local age, came
  if meta[1] then age, came = struct.unpack(NEWEST, meta[1]) end
  local usual = age and came <= now and (meta[2] or ''):find('5', 1, true) and not meta[3]
  for _, known in ipairs(call('HMGET', root .. JOBS, unpack(ids))) do usual = usual and not known end
  if usual then
    age = put(ARGV, 8, now, now, 5, '0', nil, math.max(microseconds(), age), fixed, line)
    call('RPUSH', root .. READY .. '5', unpack(line)) -- first: it alone was not looked at, and may be of another type
    call('HSET', root .. META, 'newest', pack_struct(NEWEST, age, now))
    call('HSET', root .. JOBS, unpack(fixed))
    remember_call(calls, number, {})
    call('PUBLISH', ARGV[2], root:match('{(.*)}$'))
    return 0
  end
end
