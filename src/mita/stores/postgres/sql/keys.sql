-- keys: how resource keys stand.  In: queues, keys.  Out: how many hold it, whether it is on hold; in the order given.
select (select count(*) from mita._job as j where j.state = 'running' and j.resource is not null and j.queue = v.queue and j.resource = v.key),
       exists (select 1 from mita._hold as h where h.queue = v.queue and h.key = v.key and h.until > {now})
from unnest(%(queues)s::text::text[], %(keys)s::text::text[]) with ordinality as v (queue, key, n)
order by v.n
