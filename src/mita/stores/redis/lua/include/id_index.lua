-- The sorted ids of a queue, for pages. They cost every job two operations on a sorted set, so they
-- are kept only while pages are read. Returns until when, false if they are not kept.

local function has_id_index(q)
  if q.index == nil then q.index = call('HGET', q.meta, 'index') end
  return q.index
end
