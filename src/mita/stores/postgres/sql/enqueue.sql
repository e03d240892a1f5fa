-- enqueue: store new jobs. A job whose id is known is left out, and so is one whose unique key
-- another job has.
-- In: one array for each field of a NewJob but those of limits; `at` is a point in time, or null
--     and `wait` counts.
-- Out: the ids that were stored.
insert into mita._job (state, due, created, {keyed_columns})
select {queued},
       case when v.at is null then clock.now + v.wait else greatest(v.at, clock.now) end,
       clock.now, {keyed_values}
from (select {now} as now) as clock
cross join unnest({keyed_arrays}) as v ({keyed_names})
where v.uniq is null
   or exists (
     select 1 from mita._unique as u
     where u.queue = v.queue and u.key = v.uniq and u.id = v.id and u.until is null)
on conflict (id) do nothing
returning id
