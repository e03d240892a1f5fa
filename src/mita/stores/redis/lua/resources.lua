-- resources: the resource keys that a job has or waits for, or that are on hold.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock  2 key, '' for all
-- Returns for each: key, number of waiting jobs, end of the hold (false: none), {id, worker, since
--       when} of the jobs that have it
-- include keys
-- include record
local now, q, rows, keys = clock(ARGV[1]), queue_of(KEYS[1]), {}, {}
for _, key in ipairs(call('SMEMBERS', q.held)) do keys[key] = true end
for _, key in ipairs(call('SMEMBERS', q.waited)) do keys[key] = true end
for _, key in ipairs(call('ZRANGEBYSCORE', q.holds, '(' .. now, '+inf')) do keys[key] = true end
for key in pairs(keys) do
  if ARGV[2] == '' or ARGV[2] == key then
    local holders, ends = {}, tonumber(call('ZSCORE', q.holds, key) or 0)
    local handles = call('SMEMBERS', q.holders .. key)
    table.sort(handles)
    for _, handle in ipairs(handles) do
      local r = load_handle(q, handle)
      if r then holders[#holders + 1] = { r.id, r.worker, r.started } end
    end
    rows[#rows + 1] = { key, call('ZCARD', q.waiting .. key), ends > now and ends, holders }
  end
end
return rows
