-- limit_key: set or remove the limit of a key in queues. Jobs that were woken under the old limit
-- are counted by the new one.
-- In: queues, key, limit (JSON, or null).  Out: no row.
with known as (
  insert into mita._queue (name)
  select v.queue from unnest(%(queues)s::text::text[]) as v (queue)
  where v.queue not in (select q.name from mita._queue as q)
),
limited as (
  insert into mita._limited (queue, is_fair)
  select v.queue, false from unnest(%(queues)s::text::text[]) as v (queue)
  where not exists (select 1 from mita._limited as l where l.queue = v.queue and not l.is_fair)
),
kept as (
  update mita._key as k set stored_limit = null, woken_us = k.tat_us
  from unnest(%(queues)s::text::text[]) as v (queue)
  where k.queue = v.queue and k.key = %(key)s and %(limit)s::text is null
)
insert into mita._key as k (queue, key, stored_limit)
select v.queue, %(key)s, %(limit)s::text::jsonb from unnest(%(queues)s::text::text[]) as v (queue)
where %(limit)s::text is not null
on conflict (queue, key) do update
set stored_limit = excluded.stored_limit, woken_us = k.tat_us
