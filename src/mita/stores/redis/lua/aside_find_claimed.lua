-- aside_find_claimed: the jobs that were claimed under one token, with everything that a claim is
-- made of.
-- KEYS  1 root of the queue
-- ARGV  1 token
-- Returns {id, handle ('' for a job of a batch), fixed part, live part} of each
-- include keys
-- include record
local q, rows = queue_of(KEYS[1]), {}

local function add(id, handle, live)
  rows[#rows + 1] = { id, handle, call('HGET', q.jobs, id) or '', live or '' }
end

for _, handle in ipairs(call('ZRANGE', q.lease, 0, -1)) do
  if is_batch(handle) then
    if is_batch_of(handle, ARGV[1]) then
      for _, id in ipairs(members(q, handle)) do add(id, '', shared_live(q, handle)) end
    end
  else
    local id = handle:sub(ID_AT)
    local live = call('HGET', q.live, id)
    local r = live and not is_batch(live) and read_live(live)
    if not r or plain(r.token) == ARGV[1] then add(id, handle, live) end
  end
end
return rows
