-- claim_turns: store whose turn it is.
-- In: queue, priorities, virtuals, finished (JSON objects).  Out: no row.
insert into mita._turn as t (queue, priority, virtual, finished)
select %(queue)s, v.priority, v.virtual, v.finished
from unnest(%(priorities)s::text::int[], %(virtuals)s::text::bigint[],
            %(finished)s::text::jsonb[]) as v (priority, virtual, finished)
on conflict (queue, priority) do update
set virtual = excluded.virtual, finished = excluded.finished
