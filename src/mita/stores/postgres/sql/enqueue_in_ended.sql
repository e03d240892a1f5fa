-- enqueue_in_ended: those of these transactions that have ended.
-- In: ids.  Out: id, whether the transaction was committed.
select v.id, coalesce(pg_xact_status(v.id::xid8), '') = 'committed'
from unnest(%(ids)s::text::text[]) as v (id)
where coalesce(pg_xact_status(v.id::xid8), '') <> 'in progress'
