-- index: bring the ids of a queue in order, a slice at a time, and keep them so while somebody looks at its pages. Whatever
-- comes or goes meanwhile is added or taken away by the script that does it.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server
-- gives 1 when all are in order
-- include keys
-- include record
local now, q, names = clock(ARGV[1]), sound(queue_of(KEYS[1])), {}
local scan = call('HGET', q.meta, 'scan') or '0'
if scan ~= 'done' and not scan:match('^%d+$') then scan = '0' end -- it cannot be read: from the start
if not has_index(q) then call('UNLINK', q.ids) end
if scan ~= 'done' then
  local slice = call('HSCAN', q.jobs, scan, 'COUNT', MOST)
  for i = 1, #slice[2], 2 do names[i], names[i + 1] = '0', slice[2][i] end
  for i = 1, #names, MOST * 2 do call('ZADD', q.ids, unpack(names, i, math.min(i + MOST * 2 - 1, #names))) end
  scan = slice[1] == '0' and 'done' or slice[1]
end
call('HSET', q.meta, 'index', plain(now + LOOKING), 'scan', scan)
return scan == 'done' and 1 or 0
