-- One plain job that nobody else can know (see `NewJob.fresh`), for a queue that has had such jobs before: what nearly every
-- enqueue brings. A script makes its functions anew at every call, and those of the general way cost a lone job more than its
-- commands do; so this stands before them and has none. It writes what `take_in` would write, or nothing: whatever is not as
-- usual is left to the general way. A fresh id is looked for all the same, in its own queue: what was sent on a connection that
-- was given up can reach the server after it was sent again on another.

-- include layout
-- tails calls meta jobs ready

if ARGV[6] == '1' and ARGV[7] == '0' and #ARGV == 9 then
  local call, root, number, id = redis.call, KEYS[1], ARGV[5], ARGV[8]
  local calls, place = root .. CALLS .. ARGV[4], number:sub(-3)
  local found, meta = call('HGET', calls, place), call('HMGET', root .. META, 'newest', 'lines', 'index')
  local new = not found or (found ~= number and #found <= #number) -- see include/repeated_calls: an earlier number, and no answer
  local usual = meta[1] and #meta[1] == 16 and not meta[3] and (meta[2] or ''):find('5', 1, true)
  if call('HEXISTS', root .. JOBS, id) == 0 and new and usual then
    local time, age, came = call('TIME'), struct.unpack(NEWEST, meta[1])
    local real = time[1] * 1000000 + time[2]
    local now = tonumber(ARGV[1]) or (real - real % 1000) / 1000
    if came <= now then
      age = math.max(age, real) + 1
      local handle = struct.pack('>I8', age) .. '0' .. id
      call('RPUSH', root .. READY .. '5', handle) -- first: it alone was not looked at, and may be of another type
      call('HSET', root .. META, 'newest', struct.pack(NEWEST, age, now))
      call('HSET', root .. JOBS, id, struct.pack(HEAD, 0x9f, 0xcf, now, 0xcf, now, 5, 0xc4, #handle) .. handle .. ARGV[9])
      if call('HSET', calls, place, number) == 1 then call('PEXPIRE', calls, '600000') end
      call('PUBLISH', ARGV[2], root:match('{(.*)}$'))
      return 0
    end
  end
end
