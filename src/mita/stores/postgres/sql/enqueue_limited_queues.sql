-- enqueue_limited_queues: remember the queues that have jobs with several keys, rates or groups.
-- In: queues, fairs (whether these are jobs of groups).  Out: no row.
insert into mita._limited (queue, is_fair)
select v.queue, v.is_fair
from unnest(%(queues)s::text::text[], %(fairs)s::text::boolean[]) as v (queue, is_fair)
where not exists (
  select 1 from mita._limited as l where l.queue = v.queue and l.is_fair = v.is_fair)
