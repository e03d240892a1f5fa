-- key_lock: lock keys until the transaction ends. In the given order, so that two sessions that
-- lock several keys cannot deadlock.
-- In: locks (numbers made of queue and key, sorted).  Out: a row for each.
select pg_advisory_xact_lock(v.lock) from unnest(%(locks)s::text::bigint[]) as v (lock)
