-- limit_queue: set or remove the limit of queues. `claim_tokens` then brings the numbers of their
-- rates back.
-- In: queues, limit (JSON, or null).  Out: queue, tat_us, now; of those that have a limit now.
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
removed as (
  delete from mita._queue_limit as l
  using unnest(%(queues)s::text::text[]) as v (queue)
  where l.queue = v.queue and %(limit)s::text is null
)
insert into mita._queue_limit as l (queue, stored_limit)
select v.queue, %(limit)s::text::jsonb from unnest(%(queues)s::text::text[]) as v (queue)
where %(limit)s::text is not null
on conflict (queue) do update set stored_limit = excluded.stored_limit
returning l.queue, l.tat_us, {now}
