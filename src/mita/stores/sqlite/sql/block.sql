-- block: the job found its resource key taken.  In: seq.
update _mita_job set state = 'blocked', busy = busy + 1 where seq = :seq and state = 'queued'
