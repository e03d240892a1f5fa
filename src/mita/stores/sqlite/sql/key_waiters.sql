-- The jobs that wait for a resource key, in the order in which they start: priority, due time, age.
-- In: queue, key, limit.  Out: seq, most, id.
select seq, most, id from _mita_job indexed by _mita_waiters
where state = {blocked} and queue = :queue and resource = :key
order by priority desc, due, seq limit :limit
