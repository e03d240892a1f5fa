-- enqueue_plain: `enqueue` for plain jobs: no keys, no repeat, due now or after a delay.
-- In: one array for each field of a plain job.  Out: the ids that were stored.
insert into mita._job (state, due, created, {plain_columns})
select {queued}, clock.now + v.wait, clock.now, {plain_values}
from (select {now} as now) as clock
cross join unnest({plain_arrays}) as v ({plain_names})
on conflict (id) do nothing
returning id
