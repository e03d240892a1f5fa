-- ended_transactions: of these transactions, those that have ended.  In: numbers.  Out: number, whether it was committed.
select v.number, coalesce(pg_xact_status(v.number::xid8), '') = 'committed'
from unnest(%(numbers)s::text::text[]) as v (number)
where coalesce(pg_xact_status(v.number::xid8), '') <> 'in progress'
