-- The job that has a unique key.  In: queue, key, now.  Out: its id, or no row.
select id from _mita_unique
where queue = :queue and key = :key and typeof(id) = 'text'
  and (until is null or until > :now and typeof(until) = 'integer')
