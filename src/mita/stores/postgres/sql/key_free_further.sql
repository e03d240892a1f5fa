-- key_free_further: jobs that do not run any more have no keys beside their resource key.
-- In: queues, keys, ids.  Out: no row.
delete from mita._key_holder as h
using unnest(%(queues)s::text::text[], %(keys)s::text::text[], %(ids)s::text::text[])
  as v (queue, key, id)
where h.queue = v.queue and h.key = v.key and h.id = v.id
  and not exists (select 1 from mita._job as j where j.id = v.id and j.state = {hidden_running})
