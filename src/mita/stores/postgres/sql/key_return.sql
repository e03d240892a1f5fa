-- key_return: return the first jobs that wait at keys to the queue. `key_show` is the same for the
-- claim that follows in the same transaction; if that leaves one of them there, `key_behind`
-- follows.
-- In: queues, keys, numbers (how many of each).
-- Out: queue; the last column is not used. Of `key_show` the columns of `codec.ShownRow`.
with clock as materialized (select {now} as now),
first as materialized (
  select w.id
  from unnest(%(queues)s::text::text[], %(keys)s::text::text[], %(numbers)s::text::bigint[])
    as v (queue, key, number)
  cross join lateral (
    select w.id from mita._job as w
    where w.state = {blocked} and w.queue = v.queue and w.blocked_at = v.key
    order by w.priority desc, w.due, w.seq limit v.number) as w
)
update mita._job as j set state = {to_wake}, blocked_at = null
from first as f, clock
where j.id = f.id and j.state = {hidden_blocked}
returning {returned}
