-- Starting a job that is not on its first run, or that has keys. `c` is the claim call (see claim).

local function start_again(q, c, r)
  r.state, r.token, r.worker = State.RUNNING, next_token(r.token, c.now), c.worker
  r.started = c.now
  if r.resource or r.gates then take_keys(q, r, c.now) end
  local live, progress = pack_live(r), r.extras and call('HGET', q.progress, r.id) or false
  c.touched[#c.touched + 1] = { #c.fixed + 1, live, progress }
  return live
end

-- Start one job that has a live part or a key. Appends to `lives` and `leases` what is to be
-- written.
local function start_or_block(q, c, id, fixed, live, handle, lives, leases)
  local r = as_record(q, id, fixed, live)
  if r.unreadable then return set_aside(q, r, handle, c.now) end
  local gate, lacks_token
  if r.resource or r.gates then gate, lacks_token = closed_gate(q, r, c.now) end
  if gate then return apply_busy_policy(q, r, gate, lacks_token, c.now) end
  local m = #lives
  lives[m + 1], lives[m + 2] = id, start_again(q, c, r)
  leases[m + 1], leases[m + 2] = c.lease, handle
  c.fixed[#c.fixed + 1] = fixed
end
