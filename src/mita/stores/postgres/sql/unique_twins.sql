-- unique_twins: lock the jobs that have these unique keys.  In: queues, keys.  Out: id.
select j.id
from unnest(%(queues)s::text::text[], %(keys)s::text::text[]) as v (queue, key)
join mita._unique as u on u.queue = v.queue and u.key = v.key
join mita._job as j on j.id = u.id
order by j.id
for update of j
