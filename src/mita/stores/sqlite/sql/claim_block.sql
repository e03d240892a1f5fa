-- The job found its resource key busy and waits for it.  In: seq.
update _mita_job set state = {to_block}, busy = busy + 1 where seq = :seq and state in {from_block}
