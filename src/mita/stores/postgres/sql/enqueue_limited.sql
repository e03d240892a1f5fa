-- enqueue_limited: `enqueue` for jobs of which some have gates or a fair group.
-- In: one array for each field of a NewJob; `at` is a point in time, or null and `wait` counts.
-- Out: the ids that were stored.
insert into mita._job (state, due, created, {new_columns})
select {queued},
       case when v.at is null then clock.now + v.wait else greatest(v.at, clock.now) end,
       clock.now, {new_values}
from (select {now} as now) as clock
cross join unnest({new_arrays}) as v ({new_names})
where v.uniq is null
   or exists (
     select 1 from mita._unique as u
     where u.queue = v.queue and u.key = v.uniq and u.id = v.id and u.until is null)
on conflict (id) do nothing
returning id
