-- prune: delete ended jobs, unique keys that are free, and the sorted ids if no page was read.
-- KEYS  1 root of the queue
-- ARGV  1 now, '' to read the server's clock
--       2 how many succeeded jobs may be deleted beyond the newest `most`, the
--         oldest first  3 most
--       then handles of jobs whose retention is over
-- Returns how many of the named jobs were deleted, how many beyond `most`, and 1 if the queue has
--       rates (see prune_rates), else 0
-- include keys
-- include type_checks
-- include record
-- include state_indexes
local now, q, expired, surplus = clock(ARGV[1]), check_types(queue_of(KEYS[1])), 0, 0

local function delete(handle)
  local r = load_handle(q, handle)
  if r then
    remove_from_indexes(q, r)
    delete_job(q, r)
  else
    for _, set in ipairs({ q.succeeded, q.failed, q.cancelled, q.expiry }) do
      call('ZREM', set, handle)
    end
  end
end

for at = 4, #ARGV do
  local ends = call('ZSCORE', q.expiry, ARGV[at])
  if ends and tonumber(ends) <= now then
    delete(ARGV[at])
    expired = expired + 1
  end
end
local many, most = tonumber(ARGV[2]), tonumber(ARGV[3])
many = math.min(many, call('ZCARD', q.succeeded) - most)
if many > 0 then
  for _, handle in ipairs(call('ZRANGE', q.succeeded, 0, many - 1)) do
    delete(handle)
    surplus = surplus + 1
  end
end
local free = call('ZRANGEBYSCORE', q.unique_ends, '-inf', now, 'LIMIT', 0, CALL_ITEMS)
for _, key in ipairs(free) do delete_unique(q, key) end
if has_id_index(q) and (tonumber(q.index) or 0) <= now then
  call('UNLINK', q.ids)
  call('HDEL', q.meta, 'index', 'scan')
end
return { expired, surplus, uses(q, RATES) and 1 or 0 }
