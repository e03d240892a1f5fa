-- count_runs: add counts to the current minute and to the current hour. All workers write the rows
-- in the same order, so that none waits for another in a circle.
-- In: queues, tasks, and one array for each number.  Out: no row.
insert into mita._history as h (span, at, queue, task, {history_numbers})
select s.span, clock.now - clock.now % s.span, v.queue, v.task, {history_given}
from (select {now} as now) as clock
cross join (values {history_spans}) as s (span, kept)
cross join unnest(%(queues)s::text::text[], %(tasks)s::text::text[], {history_arrays})
  as v (queue, task, {history_numbers})
order by s.span, v.queue, v.task
on conflict (span, at, queue, task) do update set {history_sums}
