-- Every resource key at which jobs wait.  Out: queue, key.
-- The recursion goes from key to key over the index, so a key with 100,000 waiting jobs costs no
-- more than a key with one.
with recursive k (queue, resource) as (
  select queue, resource from (
    select queue, resource from _mita_job indexed by _mita_waiters
    where state = {blocked} order by queue, resource limit 1)
  union all
  select n.queue, n.resource from k cross join _mita_job as n
  where n.seq = coalesce(
    (select seq from _mita_job indexed by _mita_waiters
     where state = {blocked} and queue = k.queue and resource > k.resource
     order by resource limit 1),
    (select seq from _mita_job indexed by _mita_waiters
     where state = {blocked} and queue > k.queue order by queue, resource limit 1))
)
select queue, resource from k
