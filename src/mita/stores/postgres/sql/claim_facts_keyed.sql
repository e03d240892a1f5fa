-- claim_facts_keyed: the part of `claim` for queues whose jobs may have several keys and rates, and
-- which have no holds, no limit and no fair groups (`is_stopped`). Nothing is taken from others.
-- In: what `claim` takes.
-- Out: the table `facts`. `first_wake` is when the clock opens the next key that a job waits for.
facts as materialized (
  select clock.now, clock.behind, least(lines.next_due, keys.first_wake) as next_time,
         lines.has_strays,
         %(ageing)s::bigint is not null and lines.ready > lines.queues as mixed,
         keys.first_wake, keys.is_stopped,
         keys.is_stopped
         or (%(keys_first)s::boolean and coalesce(keys.first_wake <= clock.now, false)) as waits
  from clock, (select {line_facts} from line) as lines,
    (select min(k.wake_at) as first_wake, {has_stops} as is_stopped
     from unnest(%(names)s::text::text[]) as v (queue)
     cross join lateral (
       select k.wake_at from mita._key as k
       where k.queue = v.queue and k.wake_at is not null
       order by k.wake_at limit 1) as k
     where v.queue not in (select p.name from mita._paused as p)) as keys
)
