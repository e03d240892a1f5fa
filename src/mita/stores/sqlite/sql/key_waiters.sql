-- The jobs that wait at a key, in the order in which they start: priority, due time, age.
-- In: queue, key, limit.  Out: seq, id, resource, most, gates.
select seq, id, resource, most, gates from _mita_job indexed by _mita_waiters
where state = {blocked} and queue = :queue and blocked_at = :key
order by priority desc, due, seq limit :limit
