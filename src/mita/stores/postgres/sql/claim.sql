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
line as materialized (
  select v.queue, v.priority, open.n, first.due as first, first.due <= clock.now as ready
  from clock
  cross join open
  join unnest(
    %(queues)s::text::text[], %(priorities)s::text::int[], %(watermarks)s::text::bigint[]
  ) with ordinality as v (queue, priority, watermark, n) on v.queue = open.queue
  left join lateral (
    select j.due from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = v.queue and j.priority = v.priority
      and j.due >= case when (select last_value from mita._behind) = %(behind)s::bigint
                        then v.watermark else 0 end
    order by j.due limit 1) as first on true
  where not open.careful
  order by v.n
),
facts as materialized (
  select o.first_wake, o.careful, h.ended_holds, h.next_hold, l.next_due, l.mixed,
         %(keys_first)s::boolean
         and (h.ended_holds > 0 or coalesce(o.first_wake <= clock.now, false)) as waits
  from clock,
    (select min(open.first_wake) as first_wake,
            json_agg(open.queue) filter (where open.careful) as careful
     from open) as o,
    (select count(*) filter (where h.until <= clock.now) as ended_holds,
            min(h.until) filter (where h.until <= clock.now or waiter.id is not null) as next_hold
     from clock, open
     join mita._hold as h on h.queue = open.queue
     left join lateral (
       select w.id from mita._job as w
       where w.state = {blocked} and w.queue = h.queue and w.blocked_at = h.key
       limit 1) as waiter on true) as h,
    (select min(line.first) filter (where not line.ready) as next_due,
            -- more ready lines than queues with ready lines (one bit for each)
            %(ageing)s::bigint is not null
            and count(*) filter (where line.ready)
                > bit_count(coalesce(bit_or(1::bigint << mod(line.n, 63)::int)
                                       filter (where line.ready), 0)::bit(64)) as mixed
     from line) as l
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
         facts.ended_holds, facts.first_wake <= clock.now as has_due_keys,
         facts.careful, facts.mixed, (select short.is_short from short) as is_short,
         least(
           facts.next_due, facts.first_wake, facts.next_hold,
           (select min(j.due)
            from line
            cross join lateral (
              select j.due from mita._job as j
              where j.state = {queued} and j.fair is null and j.queue = line.queue
                and j.priority = line.priority and j.due > clock.now
              order by j.due limit 1) as j
            where line.ready)
         ) as next_due
  from clock, facts
)
select row_to_json(header)::text as header, {claim_nulls} from header
union all
select null, {claimed} from candidate as c, clock
