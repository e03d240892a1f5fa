-- unique_give: give locked unique keys to jobs.
-- In: queues, keys, ids, throttles (ms for which the key stays taken, or null: until the job ends).
-- Out: no row.
update mita._unique as u set id = v.id, until = {now} + v.throttle
from unnest(%(queues)s::text::text[], %(keys)s::text::text[], %(ids)s::text::text[],
            %(throttles)s::text::bigint[]) as v (queue, key, id, throttle)
where u.queue = v.queue and u.key = v.key
