-- page_index: sort the ids of a queue, a part in each call, and keep them sorted while pages are
-- read. Jobs that come or go meanwhile are added or removed by the script that inserts or deletes
-- them.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock
-- Returns 1 when all ids are sorted, else 0
-- include keys
-- include type_checks
-- include clock
-- include id_index
local now, q, names = clock(ARGV[1]), check_types(queue_of(KEYS[1])), {}
local scan = call('HGET', q.meta, 'scan') or '0'
if scan ~= 'done' and not scan:match('^%d+$') then scan = '0' end -- unreadable: start again
if not has_id_index(q) then call('UNLINK', q.ids) end
if scan ~= 'done' then
  local part = call('HSCAN', q.jobs, scan, 'COUNT', CALL_ITEMS)
  for i = 1, #part[2], 2 do names[i], names[i + 1] = '0', part[2][i] end
  for i = 1, #names, CALL_ITEMS * 2 do
    call('ZADD', q.ids, unpack(names, i, math.min(i + CALL_ITEMS * 2 - 1, #names)))
  end
  scan = part[1] == '0' and 'done' or part[1]
end
call('HSET', q.meta, 'index', plain(now + PAGE_INDEX_RETENTION_MS), 'scan', scan)
return scan == 'done' and 1 or 0
