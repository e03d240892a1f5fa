-- claim: the next due jobs of some queues, in the order in which they go. Those without a resource key are taken at once; those
-- with one are only shown (`take` or `block` follow). If `holds_first`, nothing is taken while a hold that has run out is not lifted.
-- In: one array entry for each queue and priority in their order: queues, priorities, marks (below which nothing waits);
--     names (the queues alone), behind (what the sequence said when the marks were made), limit, lease, worker,
--     unsynced (whether the commit need not wait for the disk).
-- Out: a row about them all, then the fields of a Claim in their order. The first row has no id, and in the places that follow: when there may
--      be more (the next moment at which a job is due or a hold ends that somebody waits for; one that is over but not lifted counts too); now;
--      as `due`, what the sequence says; as `attempts`, how many holds have run out.
-- One statement, because a worker that was asleep pays for each of them: what it needs to run one is no longer in the processor's caches.
-- The token is the clock's, or one more than the last: a claim that nobody synced to disk can be lost in a crash of the server, and the
-- job is claimed again from the state before. A plain count would then give the same token to two runs, and either could put down the other.
-- No "order by" around it all: for each queue and priority the index is walked in (due, seq) order, and sorting would read the
-- whole backlog.
with clock as materialized (
  select {now} as now, case when %(unsynced)s::boolean then set_config('synchronous_commit', 'off', true) end as unsynced
),
open as materialized (
  select v.queue from unnest(%(names)s::text::text[]) as v (queue) where v.queue not in (select p.name from mita._paused as p)
),
held as materialized (
  select h.queue, h.key, h.until, h.until <= clock.now as over
  from clock, open join mita._hold as h on h.queue = open.queue
),
line as materialized (
  select v.queue, v.priority, case when (select last_value from mita._behind) = %(behind)s::bigint then v.mark else 0 end as mark
  from unnest(%(queues)s::text::text[], %(priorities)s::text::int[], %(watermarks)s::text::bigint[]) as v (queue, priority, mark)
  where v.queue in (select open.queue from open)
),
candidate as materialized (
  select j.*
  from clock
  cross join line
  cross join lateral (
    select j.id, j.token, j.task, j.queue, j.payload, j.options, j.headers, j.priority, j.due, j.created, j.attempts, j.reschedules, j.busy,
           j.interruptions, j.crashes, j.resource, j.uniq, j.repeat, j.fire_time, j.progress, j.stranded
    from mita._job as j
    where j.state = 'queued' and j.queue = line.queue and j.priority = line.priority and j.due <= clock.now and j.due >= line.mark
    order by j.due, j.seq
    limit %(limit)s::bigint
    for update skip locked
  ) as j
  where not (%(holds_first)s::boolean and exists (select 1 from held where held.over))
  limit %(limit)s::bigint
),
taken as (
  update mita._job as j
  set state = 'running', token = greatest(j.token + 1, clock.now), worker = %(worker)s, started = clock.now, lease_until = clock.now + %(lease)s::bigint
  from candidate as c, clock
  where j.id = c.id and c.resource is null
)
select null as id,
       least(
         (select min(j.due)
          from line
          cross join lateral (
            select j.due from mita._job as j
            where j.state = 'queued' and j.queue = line.queue and j.priority = line.priority and j.due > clock.now
            order by j.due limit 1) as j),
         (select min(held.until) from held
          where held.over
             or exists (select 1 from mita._job as w where w.state = 'blocked' and w.queue = held.queue and w.resource = held.key))) as token,
       clock.now as at, null as task, null as queue, null as payload, null as options, null as headers, null as priority,
       (select last_value from mita._behind) as due, null as created, (select count(*) from held where held.over) as attempts,
       null as reschedules, null as busy, null as interruptions, null as crashes, null as resource, null as uniq, null as repeat,
       null as fire_time, null as progress, null as stranded
from clock
union all
select c.id, greatest(c.token + 1, clock.now), clock.now, c.task, c.queue, c.payload, c.options, c.headers, c.priority, c.due, c.created, c.attempts,
       c.reschedules, c.busy, c.interruptions, c.crashes, c.resource, c.uniq, c.repeat, c.fire_time, c.progress, c.stranded
from candidate as c, clock
