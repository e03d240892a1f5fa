-- delete: forget jobs that have ended, with their unique keys.  In: ids.  Out: id, queue, state, asked; as found.
with found as materialized (
  select j.id, j.queue, j.state, j.asked, j.uniq
  from unnest(%(ids)s::text::text[]) as v (id) join mita._job as j on j.id = v.id
  for update of j
),
gone as (
  delete from mita._job as j using found as f where j.id = f.id and f.state in ('succeeded', 'failed', 'cancelled')
),
freed as (
  delete from mita._unique as u using found as f
  where u.queue = f.queue and u.key = f.uniq and u.id = f.id and f.state in ('succeeded', 'failed', 'cancelled')
)
select id, queue, state, asked from found
