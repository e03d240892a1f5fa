-- A job that waits for this signal is due now.  In: seq, now.
update _mita_job set due = min(due, :now), due_fixed = 0 where seq = :seq and state = {queued}
