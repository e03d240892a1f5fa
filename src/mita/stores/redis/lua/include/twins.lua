-- Debounce: what an enqueue does whose unique key another job has, its twin (`rules.twins`).

-- include state_indexes
-- include timeline

-- The fixed part of a job with the arguments of another enqueue, given as its client's fields.
local function with_arguments(fixed, fields)
  local first, last = arguments_in(fixed, client_fields_at(fixed))
  local from, to = arguments_in(fields, fields:byte() == LONG_ARRAY and 3 or 1)
  return fixed:sub(1, first) .. fields:sub(from + 1, to) .. fixed:sub(last + 1)
end

local function debounced_due(kind, created, now)
  local due = now + kind.debounce
  if kind.debounce_max > 0 then due = math.min(due, created + kind.debounce_max) end
  return math.max(now, due)
end

-- An enqueue of this kind with these fields meets the job that has its key. Returns the id of the
-- job that stands for the new one, which is not inserted then; nil if it is to be inserted.
local function meet_twin(q, kind, fields, now)
  local id = unique_holder(q, kind.unique, now)
  local r = id and load(q, id)
  if not r then return id end
  if r.state == State.RUNNING then return nil end
  if not MOVED_BY_DEBOUNCE[r.state] or r.unreadable then return id end
  note(q, r, now, TimelineKind.DEBOUNCED, '')
  r.fixed = with_arguments(r.fixed, fields)
  call('HSET', q.jobs, id, r.fixed)
  move(q, r, State.QUEUED, debounced_due(kind, number_at(r.fixed, CREATED_AT), now))
  topics[q.name] = true
  return id
end
