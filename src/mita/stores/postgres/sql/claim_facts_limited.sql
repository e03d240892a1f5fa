-- claim_facts_limited: the part of `claim` for queues of which some have holds, limits or fair
-- groups. Nothing is taken while one of them has a limit or fair groups (`careful`): then
-- `claim_show` follows. `line` leaves these out, and so does `next_due`.
-- In: what `claim` takes.
-- Out: the table `facts`. `first_wake` is when the clock opens the next key that a job waits for,
--     and `next_hold` when the next hold ends that a job waits for, or that has ended already.
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
facts as materialized (
  select clock.now, clock.behind,
         least(lines.next_due, keys.first_wake, holds.next_hold) as next_time,
         lines.has_strays,
         %(ageing)s::bigint is not null and lines.ready > lines.queues as mixed,
         keys.first_wake, keys.careful, holds.next_hold,
         {has_stops} as is_stopped, {has_limits} as is_limited,
         keys.careful is not null
         or (%(keys_first)s::boolean
             and coalesce(least(keys.first_wake, holds.next_hold) <= clock.now, false)) as waits
  from clock, (select {line_facts} from line) as lines,
    (select min(open.first_wake) as first_wake,
            json_agg(open.queue) filter (where open.careful) as careful
     from open) as keys,
    (select min(h.until) as next_hold
     from clock, open
     join mita._hold as h on h.queue = open.queue
     where h.until <= clock.now
        or exists (
          select 1 from mita._job as w
          where w.state = {blocked} and w.queue = h.queue and w.blocked_at = h.key)) as holds
)
