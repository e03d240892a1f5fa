-- unique_holder: the job that a unique key belongs to.  In: queue, key, now.  Out: its id, or no row.
select id from _mita_unique where queue = :queue and key = :key and (until is null or until > :now and typeof(until) = 'integer') and typeof(id) = 'text'
