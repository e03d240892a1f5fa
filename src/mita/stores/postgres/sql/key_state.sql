-- key_state: the state of resource keys.
-- In: queues, keys, watermarks (no holder started before).
-- Out: the number of holders, whether the key is on hold, when the first holder started, now; in
--     the order given.
select held.holders,
       exists (
         select 1 from mita._hold as h
         where h.queue = v.queue and h.key = v.key and h.until > {now}),
       held.first, {now}
from unnest(%(queues)s::text::text[], %(keys)s::text::text[], %(watermarks)s::text::bigint[])
  with ordinality as v (queue, key, watermark, n)
cross join lateral (
  select count(*) as holders, min(j.started) as first from mita._job as j
  where j.state = {running} and j.resource is not null
    and j.queue = v.queue and j.resource = v.key and j.started >= v.watermark
) as held
order by v.n
