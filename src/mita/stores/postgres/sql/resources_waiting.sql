-- resources_waiting: how many jobs wait for each key.
-- In: queue, key (null for any).  Out: queue, key, number.
select queue, blocked_at, count(*) from mita._job
where state = {blocked}
  and (%(queue)s::text is null or queue = %(queue)s)
  and (%(key)s::text is null or blocked_at = %(key)s)
group by queue, blocked_at
