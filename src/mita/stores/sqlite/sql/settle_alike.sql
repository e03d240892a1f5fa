-- The same as `settle_many` for runs that ended alike.
-- In: state, due_fixed, error, result, stranded (since when), finished, expires, failure_group, and
-- 1 or 0 for each counter; then {rows} of seq, due.
update _mita_job
set state = ?1, due = coalesce(v.column2, due), due_fixed = iif(v.column2 is null, due_fixed, ?2),
    error = coalesce(?3, error), result = ?4,
    stranded = case when ?5 is not null then coalesce(stranded, ?5) end,
    worker = case when ?6 is null then null else worker end,
    lease_until = null, finished = ?6, expires = ?7, failure_group = ?8, {count_alike}
from (values {rows}) as v
where seq = v.column1
