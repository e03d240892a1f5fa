-- reap: take over jobs whose lease ran out, the longest expired first, under a new token.
-- The token is made as in `claim`.
-- In: mark (below which no lease ends), limit, lease, worker.  Out: the fields of a Claim in their order.
with clock as materialized (select {now} as now),
expired as materialized (
  select j.id, j.token, j.task, j.queue, j.payload, j.options, j.headers, j.priority, j.due, j.created, j.attempts, j.reschedules, j.busy,
         j.interruptions, j.crashes, j.resource, j.uniq, j.repeat, j.fire_time, j.progress, j.stranded, j.worker
  from mita._job as j
  where j.state = 'running' and j.lease_until <= (select now from clock) and j.lease_until >= %(watermark)s::bigint
  order by j.lease_until, j.seq limit %(limit)s::bigint
  for update skip locked
),
inherited as (
  update mita._job as j set token = greatest(j.token + 1, clock.now), worker = %(worker)s, lease_until = clock.now + %(lease)s::bigint
  from expired as e, clock where j.id = e.id
)
select e.id, greatest(e.token + 1, clock.now), clock.now, e.task, e.queue, e.payload, e.options, e.headers, e.priority, e.due, e.created, e.attempts,
       e.reschedules, e.busy, e.interruptions, e.crashes, e.resource, e.uniq, e.repeat, e.fire_time, e.progress, e.stranded,
       null, e.worker
from expired as e, clock
