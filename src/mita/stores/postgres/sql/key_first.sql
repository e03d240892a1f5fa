-- key_first: the first job that waits at each of these keys, and how many wait ({counted_waiters}
-- at most are counted).
-- In: queues, keys.
-- Out: number, resource, most, gates; in the order given. 0 and nulls if no job waits.
select (select count(*) from (
          select 1 from mita._job as w
          where w.state = {blocked} and w.queue = v.queue and w.blocked_at = v.key
          limit {counted_waiters}) as w),
       first.resource, first.most, first.gates::text
from unnest(%(queues)s::text::text[], %(keys)s::text::text[]) with ordinality as v (queue, key, n)
left join lateral (
  select w.resource, w.most, w.gates from mita._job as w
  where w.state = {blocked} and w.queue = v.queue and w.blocked_at = v.key
  order by w.priority desc, w.due, w.seq limit 1) as first on true
order by v.n
