-- try_keys: like lock_keys, but without waiting.  In: locks.  Out: whether each was had, in the order given.
select pg_try_advisory_xact_lock(v.lock) from unnest(%(locks)s::text::bigint[]) as v (lock)
