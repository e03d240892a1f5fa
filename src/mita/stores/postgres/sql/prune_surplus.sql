-- prune_surplus: delete succeeded jobs of one queue beyond its newest, the oldest first.
-- In: queue, most (how many stay), limit.  Out: how many were deleted.
with surplus as materialized (
  select j.id, j.finished, j.seq from mita._job as j
  where j.finished is not null and j.state = {succeeded} and j.queue = %(queue)s
  order by j.finished desc, j.seq desc offset %(most)s::bigint
),
deleted as (
  delete from mita._job as j
  using (select s.id from surplus as s order by s.finished, s.seq limit %(limit)s::bigint) as s
  where j.id = s.id and j.state = {hidden_succeeded}
  returning 1
)
select count(*) from deleted
