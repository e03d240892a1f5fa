-- due_repeats: repeats whose cursor has come, the oldest first.
-- KEYS  1 root of the namespace
-- ARGV  1 now, '' to read the server's clock  2 limit
-- Returns now, {key, spec, what changes} of each, and the next cursor after those (false: none)
-- include keys
-- include clock
-- include repeats
local now, s, limit, rows = clock(ARGV[1]), namespace_of(KEYS[1]), tonumber(ARGV[2]), {}
for _, key in ipairs(call('ZRANGEBYSCORE', s.fires, '-inf', now, 'LIMIT', 0, limit)) do
  if read_repeat(s, key) then
    rows[#rows + 1] = repeat_row(s, key)
  else
    call('ZREM', s.fires, key) -- it cannot be read, and must not hold up the others
  end
end
local following = call('ZRANGE', s.fires, #rows, #rows, 'WITHSCORES')[2]
return { now, rows, following and tonumber(following) or false }
