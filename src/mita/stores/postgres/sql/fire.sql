-- fire: the compare-and-set of firings, each of another repeat.  In: an array for each column.  Out: the keys of those that won.
-- One that somebody else fired, edited or paused has lost. So has one that somebody else is changing at this moment: he may have
-- been stopped in the middle, and nobody waits for him.
with standing as materialized (
  select v.*
  from unnest(
    %(keys)s::text::text[], %(cursors)s::text::bigint[], %(revisions)s::text::int[], %(nexts)s::text::bigint[],
    %(fireds)s::text::bigint[], %(lasts)s::text::bigint[], %(states)s::text::text[], %(reasons)s::text::text[]
  ) as v (key, cursor, revision, next, fired, last, state, reason)
  join mita._repeat as r on r.key = v.key and r.cursor = v.cursor and r.revision = v.revision and r.state = 'active'
  for update of r skip locked
)
update mita._repeat as r
set cursor = s.next, count = r.count + s.fired, last = coalesce(s.last, r.last), state = s.state, reason = s.reason
from standing as s
where r.key = s.key
returning r.key
