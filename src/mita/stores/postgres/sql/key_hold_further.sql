-- key_hold_further: running jobs have keys beside their resource key.
-- In: queues, keys, ids.  Out: no row.
insert into mita._key_holder (queue, key, id)
select v.queue, v.key, v.id
from unnest(%(queues)s::text::text[], %(keys)s::text::text[], %(ids)s::text::text[])
  as v (queue, key, id)
on conflict (queue, key, id) do nothing
