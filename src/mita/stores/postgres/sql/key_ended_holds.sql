-- key_ended_holds: the holds that have ended and are not removed yet.
-- In: queues (null for all; otherwise paused queues are left out).  Out: queue, key.
select h.queue, h.key from mita._hold as h
where h.until <= {now}
  and (%(queues)s::text is null
       or (h.queue = any (%(queues)s::text::text[])
           and h.queue not in (select p.name from mita._paused as p)))
