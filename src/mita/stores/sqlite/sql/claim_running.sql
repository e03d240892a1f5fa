-- How many jobs of a queue are running.  In: queue.
select count(*) from _mita_job indexed by _mita_leased where state = {running} and queue = :queue
