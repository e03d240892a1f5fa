-- claim_limited: `claim` for queues of which some have holds, or ever had jobs with several keys,
-- rates or groups, or stored limits. With `keys_first` nothing is taken while the clock has opened
-- a key and its waiting jobs are not woken yet. Nothing is taken either while one of the queues has
-- a limit or jobs of fair groups: then `claim_show` follows.
-- In: what `claim` takes, and keys_first.
-- Out: as for `claim`, with the columns of `codec.ShownClaim`. `next_due` leaves out queues with
--     limits or groups, and is also the next point in time at which the clock opens a key that a
--     job waits for.
with clock as materialized (
  select {now} as now, (select last_value from mita._behind) as behind,
         case when %(unsynced)s::boolean then set_config('synchronous_commit', 'off', true) end
),
open as materialized (
  select v.queue, wakes.at as first_wake,
         v.queue in (select q.queue from mita._queue_limit as q)
           or v.queue in (select l.queue from mita._limited as l where l.is_fair) as careful
  from unnest(%(names)s::text::text[]) as v (queue)
  left join lateral (
    select k.wake_at as at from mita._key as k
    where k.queue = v.queue and k.wake_at is not null
    order by k.wake_at limit 1) as wakes on true
  where v.queue not in (select p.name from mita._paused as p)
),
line as materialized (
  select v.queue, v.priority, v.n, first.due as first, first.due <= clock.now as ready
  from clock
  cross join unnest(
    %(queues)s::text::text[], %(priorities)s::text::int[], %(watermarks)s::text::bigint[]
  ) with ordinality as v (queue, priority, watermark, n)
  cross join lateral (
    select j.due from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = v.queue and j.priority = v.priority
      and j.due >= case when clock.behind = %(behind)s::bigint then v.watermark else 0 end
    order by j.due limit 1) as first
  where v.queue in (select open.queue from open where not open.careful)
  order by v.n
),
facts as materialized (
  select clock.now, clock.behind, o.first_wake, o.careful, h.ended_holds, h.next_hold, l.next_due,
         %(ageing)s::bigint is not null and l.ready > l.queues as mixed,
         o.careful is not null
         or (%(keys_first)s::boolean
             and (h.ended_holds > 0 or coalesce(o.first_wake <= clock.now, false))) as waits
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
    (select {line_facts} from line) as l
),
{candidate},
taken as (
  update mita._job as j
  set state = {to_claim}, token = greatest(j.token + 1, c.now), worker = %(worker)s,
      started = c.now, lease_until = c.now + %(lease)s::bigint
  from candidate as c
  where j.id = c.id and c.resource is null and c.gates is null
),
header as (
  select facts.now, facts.behind, facts.ended_holds,
         case when facts.first_wake <= facts.now then (
           select json_agg(json_build_array(k.queue, k.key))
           from open
           cross join lateral (
             select k.queue, k.key from mita._key as k
             where k.queue = open.queue and k.wake_at <= facts.now
             order by k.wake_at limit {woken_keys}) as k
         ) end as due_keys,
         facts.careful, facts.mixed, (select short.is_short from short) as is_short,
         exists (select 1 from mita._limited as l where l.queue = any (%(names)s::text::text[]))
         or exists (select 1 from mita._hold as h where h.queue = any (%(names)s::text::text[]))
           as is_limited,
         least(
           facts.next_due, facts.first_wake, facts.next_hold,
           (select min(j.due)
            from line
            cross join lateral (
              select j.due from mita._job as j
              where j.state = {queued} and j.fair is null and j.queue = line.queue
                and j.priority = line.priority and j.due > facts.now
              order by j.due limit 1) as j
            where line.ready)
         ) as next_due
  from facts
)
select row_to_json(header)::text as header, {claim_nulls} from header
union all
select null, {claimed} from candidate as c
