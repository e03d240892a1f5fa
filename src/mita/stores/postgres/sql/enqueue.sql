-- insert: take jobs in. An id that is already there is passed over, and so is a job whose unique key is another's.
-- In: one array for each column; `at` a moment or null, then `wait` counts.  Out: the ids that were taken in.
insert into mita._job (state, id, task, queue, priority, due, created, payload, options, headers,
                       resource, most, when_busy, uniq, unique_for, repeat, fire_time)
select 'queued', v.id, v.task, v.queue, v.priority, case when v.at is null then clock.now + v.wait else greatest(v.at, clock.now) end, clock.now,
       v.payload, v.options, v.headers, v.resource, v.most, v.when_busy, v.uniq, v.unique_for, v.repeat, v.fire_time
from (select {now} as now) as clock
cross join unnest(
  %(ids)s::text::text[], %(tasks)s::text::text[], %(queues)s::text::text[], %(priorities)s::text::int[],
  %(waits)s::text::bigint[], %(ats)s::text::bigint[], %(payloads)s::text::bytea[], %(options)s::text::bytea[],
  %(headers)s::text::bytea[], %(resources)s::text::text[], %(mosts)s::text::int[], %(whens_busy)s::text::text[],
  %(uniques)s::text::text[], %(unique_fors)s::text::bigint[], %(repeats)s::text::text[], %(fire_times)s::text::bigint[]
) as v (id, task, queue, priority, wait, at, payload, options, headers, resource, most, when_busy, uniq, unique_for, repeat, fire_time)
where v.uniq is null
   or exists (select 1 from mita._unique as u where u.queue = v.queue and u.key = v.uniq and u.id = v.id and u.until is null)
on conflict (id) do nothing
returning id
