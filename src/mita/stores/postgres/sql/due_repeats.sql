-- due_repeats: the next cursors, those that have come and those ahead.  In: limit.
-- Out: now, and a repeat; or now alone when there is none.
select clock.now, r.key, r.spec, r.cursor, r.state, r.reason, r.revision, r.count, r.last
from (select {now} as now) as clock
left join (
  select * from mita._repeat where state = 'active' and cursor is not null order by cursor, key limit %(limit)s::bigint
) as r on true
order by r.cursor, r.key
