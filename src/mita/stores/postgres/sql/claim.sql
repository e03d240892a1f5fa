-- claim: the next due jobs of some queues, in the order in which they go. Those without a resource key are taken at once; those
-- with one are only shown (`take` or `block` follow). If `holds_first`, nothing is taken while a hold that has run out is not lifted.
-- In: one array entry for each queue and priority in their order: queues, priorities, marks (below which nothing waits);
--     behind (what the sequence said when the marks were made), limit, lease, worker.
-- Out: the fields of a Claim in their order.
-- The token is the clock's, or one more than the last: a claim that nobody synced to disk can be lost in a crash of the server, and the
-- job is claimed again from the state before. A plain count would then give the same token to two runs, and either could put down the other.
-- No "order by" around it all: for each queue and priority the index is walked in (due, seq) order, and sorting would read the
-- whole backlog.
with clock as materialized (select {now} as now),
candidate as materialized (
  select j.*
  from clock
  cross join unnest(%(queues)s::text::text[], %(priorities)s::text::int[], %(marks)s::text::bigint[]) as line (queue, priority, mark)
  cross join lateral (
    select j.id, j.token, j.task, j.queue, j.payload, j.options, j.headers, j.priority, j.due, j.created, j.attempts, j.reschedules, j.busy,
           j.interruptions, j.crashes, j.resource, j.uniq, j.repeat, j.fire_time, j.progress, j.stranded
    from mita._job as j
    where j.state = 'queued' and j.queue = line.queue and j.priority = line.priority and j.due <= clock.now
      and j.due >= case when (select last_value from mita._behind) = %(behind)s::bigint then line.mark else 0 end
    order by j.due, j.seq
    limit %(limit)s::bigint
    for update skip locked
  ) as j
  where line.queue not in (select p.name from mita._paused as p)
    and not (%(holds_first)s::boolean and exists (select 1 from mita._hold as h where h.until <= clock.now and h.queue = any (%(queues)s::text::text[])
                    and h.queue not in (select p.name from mita._paused as p)))
  limit %(limit)s::bigint
),
taken as (
  update mita._job as j
  set state = 'running', token = greatest(j.token + 1, clock.now), worker = %(worker)s, started = clock.now, lease_until = clock.now + %(lease)s::bigint
  from candidate as c, clock
  where j.id = c.id and c.resource is null
)
select c.id, greatest(c.token + 1, clock.now), clock.now, c.task, c.queue, c.payload, c.options, c.headers, c.priority, c.due, c.created, c.attempts,
       c.reschedules, c.busy, c.interruptions, c.crashes, c.resource, c.uniq, c.repeat, c.fire_time, c.progress, c.stranded
from candidate as c, clock
