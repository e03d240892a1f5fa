-- lock_keys: have these keys to ourselves until the transaction ends. Sorted, so that two who lock several never wait in a ring.
-- In: locks (numbers made from queue and key, sorted).
select pg_advisory_xact_lock(v.lock) from unnest(%(locks)s::text::bigint[]) as v (lock)
