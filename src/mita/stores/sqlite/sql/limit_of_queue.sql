-- The limit of a queue.  In: queue.  Out: stored_limit, tat_us; or no row.
select stored_limit, tat_us from _mita_queue where name = :queue and stored_limit is not null
