-- due_repeats: whose cursor has come, the oldest first.
-- KEYS  1 root of what is shared
-- ARGV  1 now, '' to ask the server  2 limit
-- gives now, {key, spec, what changes} of each, and the cursor after those (false: none)
-- include keys
-- include record
-- include repeats
local now, s, limit, said = clock(ARGV[1]), shared_of(KEYS[1]), tonumber(ARGV[2]), {}
local keys = call('ZRANGEBYSCORE', s.fires, '-inf', now, 'LIMIT', 0, limit)
for _, key in ipairs(keys) do
  if read_repeat(s, key) then
    said[#said + 1] = shown(s, key)
  else
    call('ZREM', s.fires, key) -- it cannot be read, and must not stand in the way of others
  end
end
local following = call('ZRANGE', s.fires, #said, #said, 'WITHSCORES')[2]
return { now, said, following and tonumber(following) or false }
