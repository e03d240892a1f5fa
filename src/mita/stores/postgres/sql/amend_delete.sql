-- amend_delete: delete ended jobs with their unique keys.
-- In: ids.  Out: id, queue, state, asked, all as found.
with found as materialized (
  select j.id, j.queue, j.state, j.asked, j.uniq
  from unnest(%(ids)s::text::text[]) as v (id) join mita._job as j on j.id = v.id
  for update of j
),
deleted as (
  delete from mita._job as j using found as f where j.id = f.id and f.state in {terminal}
),
freed as (
  delete from mita._unique as u using found as f
  where u.queue = f.queue and u.key = f.uniq and u.id = f.id and f.state in {terminal}
)
select id, queue, state, asked from found
