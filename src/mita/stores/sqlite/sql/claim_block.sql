-- The job could not pass the gate of this key, and waits at it.  In: seq, key.
update _mita_job set state = {to_block}, busy = busy + 1, blocked_at = :key
where seq = :seq and state in {from_block}
