-- prune_expired: delete ended jobs whose retention is over, the oldest first.
-- In: limit.  Out: how many were deleted.
with deleted as (
  delete from mita._job where id in (
    select j.id from mita._job as j
    where j.expires <= {now} and j.expires >= 0 and j.state in {terminal}
    order by j.expires, j.seq limit %(limit)s::bigint
    for update skip locked)
  returning 1
)
select count(*) from deleted
