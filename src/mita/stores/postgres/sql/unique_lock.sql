-- unique_lock: lock unique keys; a key that is not known becomes known and is free. Two
-- transactions that lock the same key wait for each other here.
-- In: queues, keys; sorted by queue and key.  Out: no row.
insert into mita._unique as u (queue, key, id, until)
select v.queue, v.key, '', 0
from unnest(%(queues)s::text::text[], %(keys)s::text::text[]) as v (queue, key)
on conflict (queue, key) do update set id = u.id
