-- pause: pause queues.  In: names.  Out: no row.
with known as (
  insert into mita._queue (name)
  select v.name from unnest(%(names)s::text::text[]) as v (name)
  where v.name not in (select q.name from mita._queue as q)
)
insert into mita._paused (name, since)
select v.name, {now} from unnest(%(names)s::text::text[]) as v (name)
on conflict (name) do nothing
