-- resources: the resource keys that are held, waited for or on hold.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to ask the server  2 key, '' for all
-- gives of each: key, number of waiting, end of the hold (false: none), {id, worker, since, …} of the holders
-- include keys
-- include record
local now, q, said, keys = clock(ARGV[1]), queue_of(KEYS[1]), {}, {}
for _, key in ipairs(call('SMEMBERS', q.held)) do keys[key] = true end
for _, key in ipairs(call('SMEMBERS', q.waited)) do keys[key] = true end
for _, key in ipairs(call('ZRANGEBYSCORE', q.holds, '(' .. now, '+inf')) do keys[key] = true end
for key in pairs(keys) do
  if ARGV[2] == '' or ARGV[2] == key then
    local holders, ends = {}, call('ZSCORE', q.holds, key)
    local handles = call('SMEMBERS', q.holders .. key)
    table.sort(handles)
    for _, handle in ipairs(handles) do
      local r = load_handle(q, handle)
      if r then holders[#holders + 1] = { r.id, r.worker, r.started } end
    end
    ends = ends and tonumber(ends) > now and tonumber(ends) or false
    said[#said + 1] = { key, call('ZCARD', q.waiting .. key), ends, holders }
  end
end
return said
