-- ended_transactions: of these transactions, those that have ended.  In: ids.  Out: number, whether it was committed.
select v.id, coalesce(pg_xact_status(v.id::xid8), '') = 'committed'
from unnest(%(ids)s::text::text[]) as v (id)
where coalesce(pg_xact_status(v.id::xid8), '') <> 'in progress'
