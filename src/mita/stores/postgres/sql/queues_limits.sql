-- queues_limits: the limits of queues.  In: nothing.  Out: queue, stored limit, tat_us, now.
select l.queue, l.stored_limit::text, l.tat_us, {now} from mita._queue_limit as l
