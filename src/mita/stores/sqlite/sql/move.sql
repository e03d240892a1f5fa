-- move: a waiting job runs at another time.  In: seq, due.
update _mita_job set state = 'queued', due = :due, reschedules = reschedules + 1
where seq = :seq and state in ('queued', 'blocked')
