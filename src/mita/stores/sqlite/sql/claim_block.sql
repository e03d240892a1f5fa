-- Jobs that could not pass a gate wait at its key.  In: {rows} of seq, key.
update _mita_job set state = {to_block}, busy = busy + 1, blocked_at = v.column2
from (values {rows}) as v
where seq = v.column1 and state in {from_block}
