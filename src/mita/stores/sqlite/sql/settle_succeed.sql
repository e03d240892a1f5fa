-- Settle jobs that succeeded.  In: {rows} of seq, result, finished, expires.
update _mita_job
set state = {to_succeed}, result = v.column2, finished = v.column3, expires = v.column4,
    lease_until = null, stranded = null
from (values {rows}) as v
where seq = v.column1
