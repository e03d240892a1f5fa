-- When the clock may wake the next job of one queue: a hold ends, or a rate has a token.
-- In: queue, now.  Out: a point in time, or null.
select min(moment) from (
  select h.until as moment from _mita_hold as h
  where h.queue = :queue and h.until > :now and typeof(h.until) = 'integer' and exists (
    select 1 from _mita_job indexed by _mita_waiters
    where state = {blocked} and queue = h.queue and blocked_at = h.key)
    and not exists (
      select 1 from _mita_key as k
      where k.queue = h.queue and k.key = h.key and k.wake_at is not null)
  union all
  select (select k.wake_at from _mita_key as k indexed by _mita_wake
          where k.wake_at is not null and k.queue = :queue and k.wake_at > :now
            and typeof(k.wake_at) = 'integer' and exists (
              select 1 from _mita_job indexed by _mita_waiters
              where state = {blocked} and queue = k.queue and blocked_at = k.key)
          order by k.wake_at limit 1)
)
