-- The same as `claim_candidates` for a store with ageing: if only one priority has due jobs.
-- In: queue, now, limit.  Out: how many priorities have due jobs, and the text ("[]" if several).
with p (priority) as materialized (
  select v.column1 from (values {priorities}) as v where exists (
    select 1 from _mita_job as j indexed by _mita_ready
    where j.state = {queued} and j.queue = :queue and j.priority = v.column1 and j.fair is null
      and j.due <= :now)
)
select (select count(*) from p), json_group_array({claim_row})
from (
  select j.*
  from p
  cross join _mita_job as j indexed by _mita_ready
  where j.state = {queued} and j.queue = :queue and j.priority = p.priority and j.fair is null
    and j.due <= :now and (select count(*) from p) = 1
  limit :limit
)
