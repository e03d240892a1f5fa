-- key_unhold: remove the holds on these keys that have ended.  In: queues, keys.  Out: no row.
delete from mita._hold as h
using unnest(%(queues)s::text::text[], %(keys)s::text::text[]) as v (queue, key)
where h.queue = v.queue and h.key = v.key and h.until <= {now}
