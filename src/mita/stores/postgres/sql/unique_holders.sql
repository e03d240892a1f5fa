-- unique_holders: which jobs have unique keys.  In: queues, keys.  Out: queue, key, id.
select u.queue, u.key, u.id
from unnest(%(queues)s::text::text[], %(keys)s::text::text[]) as v (queue, key)
join mita._unique as u on u.queue = v.queue and u.key = v.key
