-- claim: the next due jobs of some queues, in the order in which they run. Jobs without keys are
-- taken at once. Jobs with keys are only shown: `claim_take` or `claim_block` follow. With
-- `keys_first` nothing is taken while the clock has opened a key and its waiting jobs are not woken
-- yet. Nothing is taken either while one of the queues has a limit or jobs of fair groups (then
-- `claim_show` follows), or if jobs of several priorities are due that age (then `claim_mixed`).
-- In: for each queue and priority, in their order, one entry of the arrays queues, priorities,
--     watermarks (nothing waits before); names (the queues alone); behind (the value of the
--     sequence to which the watermarks belong); ageing (ms or null); keys_first, limit, lease,
--     worker; unsynced (whether the commit need not wait for the disk).
-- Out: first a row with a header, the JSON object of `codec.ClaimHeader`; then a row for each job,
--     with null as its header, and the fields of a Claim. `next_due` is the next point in time at
--     which a job is due (not of queues with limits or groups), or the clock opens a key that a job
--     waits for.
-- One statement, because a worker that was asleep pays for each statement: what it needs to run it
-- is no longer in the processor's caches.
with clock as materialized (
  select {now} as now,
         case when %(unsynced)s::boolean then set_config('synchronous_commit', 'off', true) end
),
open as materialized (
  select v.queue, v.n, wakes.at as first_wake,
         v.queue in (select l.queue from mita._queue_limit as l)
           or v.queue in (select f.name from mita._fair_queue as f) as careful
  from unnest(%(names)s::text::text[]) with ordinality as v (queue, n)
  left join lateral (
    select k.wake_at as at from mita._key as k
    where k.queue = v.queue and k.wake_at is not null
    order by k.wake_at limit 1) as wakes on true
  where v.queue not in (select p.name from mita._paused as p)
),
held as materialized (
  select h.queue, h.key, h.until, h.until <= clock.now as ended
  from clock, open join mita._hold as h on h.queue = open.queue
),
line as materialized (
  select v.queue, v.priority, first.due as first
  from unnest(%(queues)s::text::text[], %(priorities)s::text::int[], %(watermarks)s::text::bigint[])
    as v (queue, priority, watermark)
  left join lateral (
    select j.due from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = v.queue and j.priority = v.priority
      and j.due >= case when (select last_value from mita._behind) = %(behind)s::bigint
                        then v.watermark else 0 end
    order by j.due limit 1) as first on true
  where v.queue in (select open.queue from open where not open.careful)
),
facts as materialized (
  select (select count(*) from held where held.ended) as ended_holds,
         (select json_agg(json_build_array(k.queue, k.key))
          from open, clock
          cross join lateral (
            select k.queue, k.key from mita._key as k
            where k.queue = open.queue and k.wake_at <= clock.now
            order by k.wake_at limit {woken_keys}) as k
          where open.first_wake <= clock.now) as due_keys,
         (select json_agg(open.queue) from open where open.careful) as careful,
         %(ageing)s::bigint is not null and exists (
           select 1 from line, clock where line.first <= clock.now
           group by line.queue having count(*) > 1) as mixed
),
{candidate},
taken as (
  update mita._job as j
  set state = {to_claim}, token = greatest(j.token + 1, clock.now), worker = %(worker)s,
      started = clock.now, lease_until = clock.now + %(lease)s::bigint
  from candidate as c, clock
  where j.id = c.id and c.resource is null and c.gates = '[]'
),
header as (
  select clock.now,
         (select last_value from mita._behind) as behind,
         facts.ended_holds, facts.due_keys, facts.careful, facts.mixed,
         (select short.is_short from short) as is_short,
         least(
           (select min(line.first) from line where line.first > clock.now),
           (select min(j.due)
            from line
            cross join lateral (
              select j.due from mita._job as j
              where j.state = {queued} and j.fair is null and j.queue = line.queue
                and j.priority = line.priority and j.due > clock.now
              order by j.due limit 1) as j
            where line.first <= clock.now),
           (select min(open.first_wake) from open),
           (select min(held.until) from held
            where held.ended
               or exists (
                 select 1 from mita._job as w
                 where w.state = {blocked} and w.queue = held.queue and w.blocked_at = held.key))
         ) as next_due
  from clock, facts
)
select row_to_json(header)::text as header, {claim_nulls} from header
union all
select null, {claimed} from candidate as c, clock
