-- unique_read: which jobs have these unique keys.
-- In: queues, keys.
-- Out: queue, key, id, until, now; the state of the job, when it was created, and the key at which
--     it waits; nulls if the job is gone.
select u.queue, u.key, u.id, u.until, {now}, j.state, j.created, j.blocked_at
from unnest(%(queues)s::text::text[], %(keys)s::text::text[]) as v (queue, key)
join mita._unique as u on u.queue = v.queue and u.key = v.key
left join mita._job as j on j.id = u.id
