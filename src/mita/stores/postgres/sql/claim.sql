-- claim: the next due jobs of some queues, in the order in which they run. Jobs without a resource
-- key are taken at once. Jobs with one are only shown: `claim_take` or `claim_block` follow. With
-- `holds_first` nothing is taken while a hold has ended that is not removed yet.
-- In: for each queue and priority, in their order, one entry of the arrays queues, priorities,
--     watermarks (nothing waits before); names (the queues alone); behind (the value of the
--     sequence to which the watermarks belong); holds_first, limit, lease, worker; unsynced
--     (whether the commit need not wait for the disk).
-- Out: first a row with a header, the JSON object of `codec.ClaimHeader`; then a row for each job,
--     with null as its header, and the fields of a Claim. `next_due` is the next point in time at
--     which a job is due, or a hold ends that a job waits for or that is not removed yet.
-- One statement, because a worker that was asleep pays for each statement: what it needs to run it
-- is no longer in the processor's caches.
-- There is no "order by" around it all: for each queue and priority the index is read in the order
-- (due, seq), and a sort would read the whole backlog.
with clock as materialized (
  select {now} as now,
         case when %(unsynced)s::boolean then set_config('synchronous_commit', 'off', true) end
),
open as materialized (
  select v.queue from unnest(%(names)s::text::text[]) as v (queue)
  where v.queue not in (select p.name from mita._paused as p)
),
held as materialized (
  select h.queue, h.key, h.until, h.until <= clock.now as ended
  from clock, open join mita._hold as h on h.queue = open.queue
),
line as materialized (
  select v.queue, v.priority,
         case when (select last_value from mita._behind) = %(behind)s::bigint then v.watermark
              else 0 end as watermark
  from unnest(%(queues)s::text::text[], %(priorities)s::text::int[], %(watermarks)s::text::bigint[])
    as v (queue, priority, watermark)
  where v.queue in (select open.queue from open)
),
candidate as materialized (
  select j.*
  from clock
  cross join line
  cross join lateral (
    select {claim_columns}
    from mita._job as j
    where j.state = {queued} and j.queue = line.queue and j.priority = line.priority
      and j.due <= clock.now and j.due >= line.watermark
    order by j.due, j.seq
    limit %(limit)s::bigint
    for update skip locked
  ) as j
  where not (%(holds_first)s::boolean and exists (select 1 from held where held.ended))
  limit %(limit)s::bigint
),
taken as (
  update mita._job as j
  set state = {to_claim}, token = greatest(j.token + 1, clock.now), worker = %(worker)s,
      started = clock.now, lease_until = clock.now + %(lease)s::bigint
  from candidate as c, clock
  where j.id = c.id and c.resource is null
),
header as (
  select clock.now,
         (select last_value from mita._behind) as behind,
         (select count(*) from held where held.ended) as ended_holds,
         least(
           (select min(j.due)
            from line
            cross join lateral (
              select j.due from mita._job as j
              where j.state = {queued} and j.queue = line.queue and j.priority = line.priority
                and j.due > clock.now
              order by j.due limit 1) as j),
           (select min(held.until) from held
            where held.ended
               or exists (
                 select 1 from mita._job as w
                 where w.state = {blocked} and w.queue = held.queue and w.resource = held.key))
         ) as next_due
  from clock
)
select row_to_json(header)::text as header, {claim_nulls} from header
union all
select null, {claimed} from candidate as c, clock
