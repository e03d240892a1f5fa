-- enqueue_decided: `enqueue` for jobs whose unique keys are locked and theirs.
-- In: one array for each field of a NewJob; `at` is a point in time, or null and `wait` counts.
-- Out: the ids that were stored.
insert into mita._job (state, due, created, {new_columns})
select {queued},
       case when v.at is null then clock.now + v.wait else greatest(v.at, clock.now) end,
       clock.now, {new_values}
from (select {now} as now) as clock
cross join unnest({new_arrays}) as v ({new_names})
on conflict (id) do nothing
returning id
