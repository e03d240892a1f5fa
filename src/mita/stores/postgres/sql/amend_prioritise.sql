-- amend_prioritise: change the priority of jobs.
-- In: ids, priority.  Out: id, queue, state, asked, all as found; the last column is not used.
with found as materialized (
  select j.id, j.queue, j.state, j.asked, j.due
  from unnest(%(ids)s::text::text[]) as v (id) join mita._job as j on j.id = v.id
  for update of j
),
changed as (
  update mita._job as j set priority = %(priority)s::int
  from found as f
  where j.id = f.id and f.state in {may_prioritise}
)
select id, queue, state, asked,
       case when state = {queued} and due < {now} - {behind_ms} then nextval('mita._behind') end
from found
