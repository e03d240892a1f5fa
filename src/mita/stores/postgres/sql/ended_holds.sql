-- ended_holds: the holds that have run out.  In: queues (null for all).  Out: queue, key.
select h.queue, h.key from mita._hold as h
where h.until <= {now}
  and (%(queues)s::text is null or h.queue = any (%(queues)s::text::text[]))
  and not exists (select 1 from mita._queue as q where %(queues)s::text is not null and q.name = h.queue and q.paused is not null)
