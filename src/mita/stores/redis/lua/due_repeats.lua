-- due_repeats: whose cursor has come, the oldest first.
-- KEYS  1 root of what is shared
-- ARGV  1 now, '' to ask the server  2 limit
-- gives now, {key, spec, what changes} of each, and the cursor after those (false: none)
-- include keys
-- include record
-- include repeating
local now, s, limit, said = clock(ARGV[1]), shared_of(KEYS[1]), tonumber(ARGV[2]), {}
local keys = call('ZRANGEBYSCORE', s.fires, '-inf', now, 'LIMIT', 0, limit)
for i, key in ipairs(keys) do said[i] = shown(s, key) end
local following = call('ZRANGE', s.fires, #keys, #keys, 'WITHSCORES')[2]
return { now, said, following and tonumber(following) or false }
