-- resources_waiting: how many jobs wait for each key.
-- In: queue, key (null for any).  Out: queue, key, number.
select queue, resource, count(*) from mita._job
where state = {blocked}
  and (%(queue)s::text is null or queue = %(queue)s)
  and (%(key)s::text is null or resource = %(key)s)
group by queue, resource
