-- Settle jobs that have no keys and of which nothing was asked.
-- In: {rows} of seq, state, due, error, result, the counter to increase, stranded (since when),
-- finished, expires, due_fixed, failure_group; a null `due` or `error` keeps the old one.
update _mita_job
set state = v.column2, due = coalesce(v.column3, due),
    due_fixed = iif(v.column3 is null, due_fixed, v.column10),
    error = coalesce(v.column4, error), result = v.column5, {count_many},
    stranded = case when v.column7 is not null then coalesce(stranded, v.column7) end,
    worker = case when v.column8 is null then null else worker end,
    lease_until = null, finished = v.column8, expires = v.column9, failure_group = v.column11
from (values {rows}) as v
where seq = v.column1
