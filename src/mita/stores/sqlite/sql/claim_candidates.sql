-- The next due jobs of one queue as ONE JSON text, in the order in which they start: priority, due
-- time, age.  In: queue, now, limit.  Out: a list of lists, the rows of `codec.CLAIM_ROW`.
-- It is one text instead of many rows, because every row that is fetched releases the interpreter
-- lock. Beside a handler that keeps the processor busy, each row would wait up to 5 ms for it.
-- There is no "order by": for each priority the index is read in the order (due, seq). A sort would
-- read the whole backlog. A queue that has groups is claimed by `claim_groups` instead.
with recursive p (priority) as ({priorities_in_use})
select json_group_array({claim_row})
from (
  select j.*
  from p cross join _mita_job as j indexed by _mita_ready
  where j.state = {queued} and j.queue = :queue and j.priority = p.priority and j.fair is null
    and j.due <= :now
  limit :limit
)
