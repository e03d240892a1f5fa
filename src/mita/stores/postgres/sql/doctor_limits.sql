-- doctor_limits: all stored limits.
-- In: nothing.  Out: queue, key (null for the queue itself), limit.
select l.queue, null as key, l.stored_limit::text from mita._queue_limit as l
union all
select k.queue, k.key, k.stored_limit::text from mita._key as k where k.stored_limit is not null
order by 1, 2
