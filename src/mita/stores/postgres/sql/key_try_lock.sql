-- key_try_lock: lock those of these keys that are free, until the transaction ends.
-- In: locks (numbers made of queue and key).  Out: for each whether it was locked, in their order.
select pg_try_advisory_xact_lock(v.lock) from unnest(%(locks)s::text::bigint[]) as v (lock)
