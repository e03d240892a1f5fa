-- Every key at which jobs wait.  Out: queue, key.
-- The recursion goes from key to key over the index, so a key with 100,000 waiting jobs costs no
-- more than a key with one.
with recursive k (queue, key) as (
  select queue, blocked_at from (
    select queue, blocked_at from _mita_job indexed by _mita_waiters
    where state = {blocked} order by queue, blocked_at limit 1)
  union all
  select n.queue, n.blocked_at from k cross join _mita_job as n
  where n.seq = coalesce(
    (select seq from _mita_job indexed by _mita_waiters
     where state = {blocked} and queue = k.queue and blocked_at > k.key
     order by blocked_at limit 1),
    (select seq from _mita_job indexed by _mita_waiters
     where state = {blocked} and queue > k.queue order by queue, blocked_at limit 1))
)
select queue, key from k
