-- The timeline of a job: a list of lines {time, kind, note, worker}, and for a failed run also its
-- error and the time of its start. It keeps TIMELINE_LINES lines.

-- The two oldest lines become one that counts them by kind, as `rules.timeline` does.
local function fold(events)
  local first, second = call('LPOP', events), call('LPOP', events)
  local ok, folded = pcall(function()
    local one, two = cmsgpack.unpack(first), cmsgpack.unpack(second)
    local is_folded = one[2] == TimelineKind.FOLDED
    local counts = is_folded and cjson.decode(one[3]) or { [one[2]] = 1 }
    counts[two[2]] = (counts[two[2]] or 0) + 1
    return cmsgpack.pack({ two[1], TimelineKind.FOLDED, cjson.encode(counts), false })
  end)
  if not ok then
    local counts = cjson.encode({ [TimelineKind.UNREADABLE] = 2 })
    folded = cmsgpack.pack({ 0, TimelineKind.FOLDED, counts, false })
  end
  call('LPUSH', events, folded)
end

-- `failure` is the error of a failed run, or '', and `started` when that run began.
local function add_line(q, id, now, kind, text, worker, failure, started)
  local events, line = q.events .. id, { now, kind, text, worker or false }
  if failure and failure ~= '' then line[5], line[6] = failure, started or false end
  if call('RPUSH', events, cmsgpack.pack(line)) > TIMELINE_LINES then fold(events) end
end

local function note(q, r, now, kind, text, worker, failure)
  add_line(q, r.id, now, kind, text, worker, failure, r.started)
  r.extras = true
end
