-- Settle jobs that succeeded, if they are still claimed with these tokens and nothing was asked.
-- In: finished; then {rows} of seq, token, result, expires.
update _mita_job
set state = {to_succeed}, result = v.column3, finished = ?, expires = v.column4,
    lease_until = null, stranded = null
from (values {rows}) as v
where seq = v.column1 and token = v.column2 and state = {running} and asked is null
