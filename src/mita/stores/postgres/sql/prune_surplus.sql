-- prune_surplus: forget succeeded jobs of one queue beyond its newest, the oldest first.  In: queue, most, limit.  Out: how many went.
with beyond as materialized (
  select j.id, j.finished, j.seq from mita._job as j
  where j.finished is not null and j.state = 'succeeded' and j.queue = %(queue)s
  order by j.finished desc, j.seq desc offset %(most)s::bigint
),
gone as (
  delete from mita._job as j
  using (select b.id from beyond as b order by b.finished, b.seq limit %(limit)s::bigint) as b
  where j.id = b.id and j.state = {succeeded}
  returning 1
)
select count(*) from gone
