-- key_waited: every key that a job waits for and that has room.  In: nothing.  Out: queue, key.
-- The recursion steps from key to key over the index, so a key with 100,000 waiting jobs costs as
-- much as a key with one.
with recursive k as (
  (select j.queue, j.resource from mita._job as j
   where j.state = {blocked} order by j.queue, j.resource limit 1)
  union all
  select n.queue, n.resource from k
  cross join lateral (
    select j.queue, j.resource from mita._job as j
    where j.state = {blocked} and (j.queue, j.resource) > (k.queue, k.resource)
    order by j.queue, j.resource limit 1) as n
)
select k.queue, k.resource from k
where not exists (
    select 1 from mita._hold as h
    where h.queue = k.queue and h.key = k.resource and h.until > {now})
  and (select greatest(w.most, 1) from mita._job as w
       where w.state = {blocked} and w.queue = k.queue and w.resource = k.resource
       order by w.priority desc, w.due, w.seq limit 1)
      > (select count(*) from mita._job as h
         where h.state = {running} and h.resource is not null
           and h.queue = k.queue and h.resource = k.resource)
