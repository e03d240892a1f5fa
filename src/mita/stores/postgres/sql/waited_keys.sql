-- waited_keys: every key that somebody waits for.  Out: queue, key.
-- The recursion steps from key to key over the index, so a hot key with 100,000 waiters costs as much as one.
with recursive k as (
  (select j.queue, j.resource from mita._job as j where j.state = 'blocked' order by j.queue, j.resource limit 1)
  union all
  select n.queue, n.resource from k
  cross join lateral (
    select j.queue, j.resource from mita._job as j
    where j.state = 'blocked' and (j.queue, j.resource) > (k.queue, k.resource)
    order by j.queue, j.resource limit 1) as n
)
select queue, resource from k
