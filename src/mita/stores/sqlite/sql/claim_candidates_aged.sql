-- The same as `claim_candidates` for a store with ageing: in the order of due time minus priority
-- times ageing. The recursion begins with the first job of each priority. It always takes the job
-- that is next in that order, and adds the job behind it in the same priority: so it reads about
-- as many jobs as are wanted, however many priorities there are.
-- In: queue, now, limit, ageing.  Out: a JSON text.
with recursive p (priority) as ({priorities_in_use}
), o (rank, priority, due, seq) as (
  select f.due - f.priority * :ageing, f.priority, f.due, f.seq
  from p cross join _mita_job as f on f.seq = (
    select seq from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = p.priority and fair is null
      and due <= :now
    order by due, seq limit 1)
  union all
  select n.due - n.priority * :ageing, n.priority, n.due, n.seq
  from o cross join _mita_job as n on n.seq = (
    select seq from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = o.priority and fair is null
      and due <= :now and (due, seq) > (o.due, o.seq)
    order by due, seq limit 1)
  order by 1, 2 desc, 3, 4
  limit :limit
)
select json_group_array({claim_row})
from (select j.* from o cross join _mita_job as j on j.seq = o.seq)
