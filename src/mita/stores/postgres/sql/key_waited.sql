-- key_waited: every key that a job waits for and that may have room.
-- In: nothing.  Out: queue, key.
-- The recursion steps from key to key over the index, so a key with 100,000 waiting jobs costs as
-- much as a key with one. A key that the clock will open is left out until then.
with recursive k as (
  (select j.queue, j.blocked_at from mita._job as j
   where j.state = {blocked} order by j.queue, j.blocked_at limit 1)
  union all
  select n.queue, n.blocked_at from k
  cross join lateral (
    select j.queue, j.blocked_at from mita._job as j
    where j.state = {blocked} and (j.queue, j.blocked_at) > (k.queue, k.blocked_at)
    order by j.queue, j.blocked_at limit 1) as n
)
select k.queue, k.blocked_at from k
left join lateral (
  select wakes.wake_at from mita._key as wakes
  where wakes.queue = k.queue and wakes.key = k.blocked_at limit 1) as wakes on true
where not exists (
    select 1 from mita._hold as h
    where h.queue = k.queue and h.key = k.blocked_at and h.until > {now})
  and not coalesce(wakes.wake_at > {now} and wakes.wake_at <= {latest}, false)
  and (select case when w.gates is null then greatest(w.most, 1) else {latest} end
       from mita._job as w
       where w.state = {blocked} and w.queue = k.queue and w.blocked_at = k.blocked_at
       order by w.priority desc, w.due, w.seq limit 1)
      > (select count(*) from mita._job as h
         where h.state = {running} and h.resource is not null
           and h.queue = k.queue and h.resource = k.blocked_at)
