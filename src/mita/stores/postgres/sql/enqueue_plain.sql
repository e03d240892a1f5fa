-- insert_plain: `insert` for jobs that have nothing but the essentials: no keys, no repeat, due now or after a wait.
-- In: one array for each column.  Out: the ids that were taken in.
insert into mita._job (state, id, task, queue, priority, due, created, payload, options, headers)
select 'queued', v.id, v.task, v.queue, v.priority, clock.now + v.wait, clock.now, v.payload, v.options, v.headers
from (select {now} as now) as clock
cross join unnest(
  %(ids)s::text::text[], %(tasks)s::text::text[], %(queues)s::text::text[], %(priorities)s::text::int[],
  %(waits)s::text::bigint[], %(payloads)s::text::bytea[], %(options)s::text::bytea[], %(headers)s::text::bytea[]
) as v (id, task, queue, priority, wait, payload, options, headers)
on conflict (id) do nothing
returning id
