-- keys: how resource keys stand.  In: queues, keys, marks (no holder began before).
-- Out: how many hold it, whether it is on hold, when the first of them began, now; in the order given.
select held.holders, exists (select 1 from mita._hold as h where h.queue = v.queue and h.key = v.key and h.until > {now}), held.first, {now}
from unnest(%(queues)s::text::text[], %(keys)s::text::text[], %(watermarks)s::text::bigint[]) with ordinality as v (queue, key, mark, n)
cross join lateral (
  select count(*) as holders, min(j.started) as first from mita._job as j
  where j.state = 'running' and j.resource is not null and j.queue = v.queue and j.resource = v.key and j.started >= v.mark
) as held
order by v.n
