-- Extend leases.  In: {rows} of seq, token, until.
update _mita_job set lease_until = v.column3
from (values {rows}) as v
where seq = v.column1 and token = v.column2 and state = {running}
