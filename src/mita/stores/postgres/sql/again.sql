-- again: when there may be more in some queues.  In: queues, priorities (as for `claim`), names (the queues alone).
-- Out: now; the next moment at which a job is due or a hold ends that somebody waits for (one that is over but not lifted
--      counts too); what the sequence says.
select clock.now,
       least(
         (select min(j.due)
          from unnest(%(queues)s::text::text[], %(priorities)s::text::int[]) as line (queue, priority)
          cross join lateral (
            select j.due from mita._job as j
            where j.state = 'queued' and j.queue = line.queue and j.priority = line.priority and j.due > clock.now
            order by j.due limit 1) as j
          where line.queue not in (select p.name from mita._paused as p)),
         (select min(h.until) from mita._hold as h
          where h.queue = any (%(names)s::text::text[])
            and h.queue not in (select p.name from mita._paused as p)
            and (h.until <= clock.now
                 or exists (select 1 from mita._job as w where w.state = 'blocked' and w.queue = h.queue and w.resource = h.key)))),
       (select last_value from mita._behind)
from (select {now} as now) as clock
