-- due_repeats: the repeats that fire next, due or not.
-- In: limit.  Out: now, and the columns of a repeat; one row with nulls if there is none.
select clock.now, r.*
from (select {now} as now) as clock
left join (
  select {repeat_columns} from mita._repeat
  where state = {active} and cursor is not null
  order by cursor, key limit %(limit)s::bigint
) as r on true
order by r.cursor, r.key
