-- The fast path of an enqueue: one plain job with a fresh id (see `NewJob.fresh`), for a queue that
-- has had such jobs before. Nearly every call is of this kind. The server makes the functions of a
-- script anew at every call, and those of the general path cost more than the commands of a single
-- job; so this comes before them and has none. It writes what `insert_jobs` would write, or
-- nothing: everything unusual is left to the general path. The id is looked up in its own queue
-- even if it is fresh, because a call can arrive late, after it was sent again.

-- key suffixes: calls meta jobs ready

if ARGV[6] == '1' and ARGV[7] == '0' and #ARGV == 9 then
  local run, root, number, id = redis.call, KEYS[1], ARGV[5], ARGV[8]
  local calls, slot = root .. CALLS .. ARGV[4], number:sub(-3)
  local found = run('HGET', calls, slot)
  local meta = run('HMGET', root .. META, 'newest', 'lines', 'index')
  -- see repeated_calls: in the slot is an earlier call, which had an empty answer
  local new = not found or (found ~= number and #found <= #number)
  local priority = (meta[2] or ''):find(DEFAULT_PRIORITY, 1, true)
  local usual = meta[1] and #meta[1] == 16 and not meta[3] and priority
  if run('HEXISTS', root .. JOBS, id) == 0 and new and usual then
    local time, age, came = run('TIME'), struct.unpack(NEWEST_FORMAT, meta[1])
    local real = time[1] * 1000000 + time[2]
    local now = tonumber(ARGV[1]) or (real - real % 1000) / 1000
    if came <= now then
      age = math.max(age, real) + 1
      local handle = struct.pack(AGE_FORMAT, age) .. '0' .. id
      local head = struct.pack(HEAD_FORMAT,
        HEAD_ARRAY, HEAD_UINT64, now, HEAD_UINT64, now, DEFAULT_PRIORITY, HEAD_BYTES, #handle)
      -- first, because this key alone was not read before, and may be of another type
      run('RPUSH', root .. READY .. DEFAULT_PRIORITY, handle)
      run('HSET', root .. META, 'newest', struct.pack(NEWEST_FORMAT, age, now))
      run('HSET', root .. JOBS, id, head .. handle .. ARGV[9])
      if run('HSET', calls, slot, number) == 1 then run('PEXPIRE', calls, CALL_RETENTION_MS) end
      run('PUBLISH', ARGV[2], root:match('{(.*)}$'))
      return 0
    end
  end
end
