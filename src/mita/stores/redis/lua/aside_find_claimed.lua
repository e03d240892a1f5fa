-- running: the jobs that were claimed under one token, with all that a claim is made of.
-- KEYS  1 root of the queue
-- ARGV  1 token
-- gives {id, handle ('' for one of a batch), fixed half, live half} of each
-- include keys
-- include record
local q, said = queue_of(KEYS[1]), {}

local function add(id, handle, live)
  said[#said + 1] = { id, handle, call('HGET', q.jobs, id) or '', live or '' }
end

for _, place in ipairs(call('ZRANGE', q.lease, 0, -1)) do
  if is_batch(place) then
    if is_batch_of(place, ARGV[1]) then
      for _, id in ipairs(members(q, place)) do add(id, '', half_of(q, place)) end
    end
  else
    local id = place:sub(10)
    local live = call('HGET', q.live, id)
    local r = live and not is_batch(live) and read_live(live)
    if not r or plain(r.token) == ARGV[1] then add(id, place, live) end
  end
end
return said
