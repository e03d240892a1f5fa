-- key_wake: return the first jobs that wait for keys to the queue: as many as may run by the limit
-- of the first of them.
-- In: queues, keys, mosts (how many at most, null for all), watermarks (no holder started before).
-- Out: queue; the last column is not used.
with clock as materialized (select {now} as now),
room as (
  select v.queue, v.key,
         least(
           v.most,
           (select greatest(w.most, 1) from mita._job as w
            where w.state = {blocked} and w.queue = v.queue and w.resource = v.key
            order by w.priority desc, w.due, w.seq limit 1)
           - (select count(*) from mita._job as h
              where h.state = {running} and h.resource is not null
                and h.queue = v.queue and h.resource = v.key
                and h.started >= v.watermark)) as jobs
  from unnest(
    %(queues)s::text::text[], %(keys)s::text::text[], %(mosts)s::text::int[],
    %(watermarks)s::text::bigint[]
  ) as v (queue, key, most, watermark), clock
  where not exists (
    select 1 from mita._hold as h
    where h.queue = v.queue and h.key = v.key and h.until > clock.now)
),
first as materialized (
  select w.id from room
  cross join lateral (
    select w.id from mita._job as w
    where w.state = {blocked} and w.queue = room.queue and w.resource = room.key
    order by w.priority desc, w.due, w.seq
    limit greatest(0, coalesce(room.jobs, 0))) as w
)
update mita._job as j set state = {to_wake}
from first as f, clock
where j.id = f.id and j.state = {hidden_blocked}
returning j.queue, case when j.due < clock.now - {behind_ms} then nextval('mita._behind') end
