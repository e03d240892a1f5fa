-- key_state: the state of keys.
-- In: queues, keys, watermarks (no holder by its resource key started before), counted (whether the
--     holders are needed even if no limit is stored).
-- Out: the number of holders, the end of a hold or 0, when the first holder started, now, the two
--     numbers of the rate, the stored limit, when the clock wakes the next waiting job; in the
--     order given.
select coalesce(held.holders, 0) + coalesce(further.holders, 0), coalesce(hold.until, 0),
       held.first, {now}, coalesce(k.tat_us, 0), coalesce(k.woken_us, 0), k.stored_limit::text,
       k.wake_at
from unnest(%(queues)s::text::text[], %(keys)s::text::text[], %(watermarks)s::text::bigint[],
            %(counted)s::text::boolean[])
  with ordinality as v (queue, key, watermark, counted, n)
left join lateral (
  select k.tat_us, k.woken_us, k.stored_limit, k.wake_at from mita._key as k
  where k.queue = v.queue and k.key = v.key limit 1) as k on true
left join lateral (
  select h.until from mita._hold as h
  where h.queue = v.queue and h.key = v.key and h.until > {now} limit 1) as hold on true
left join lateral (
  select count(*) as holders, min(j.started) as first from mita._job as j
  where j.state = {running} and j.resource is not null
    and j.queue = v.queue and j.resource = v.key and j.started >= v.watermark
) as held on v.counted or k.stored_limit is not null
left join lateral (
  select count(*) as holders from mita._key_holder as h
  join mita._job as j on j.id = h.id and j.state = {hidden_running}
  where h.queue = v.queue and h.key = v.key
) as further on v.counted or k.stored_limit is not null
order by v.n
