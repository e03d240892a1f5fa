-- The same as `claim_candidates` for a store with ageing: the first jobs of each priority, in the
-- order of due time minus priority times ageing.
-- In: queue, now, limit, ageing.  Out: a JSON text.
select json_group_array({claim_row})
from (
  select j.*
  from (
    select seq from ({first_of_each_priority})
    order by due - priority * :ageing, priority desc, due, seq limit :limit
  ) as o
  cross join _mita_job as j on j.seq = o.seq
)
