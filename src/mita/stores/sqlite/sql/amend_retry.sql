-- amend_retry: a failed or cancelled job runs again, with its counters at zero.  In: seq, due, fixed.
update _mita_job
set state = 'queued', due = :due, due_fixed = :fixed, attempts = 0, reschedules = 0, busy = 0, interruptions = 0, crashes = 0,
    error = null, result = null, finished = null, expires = null, stranded = null, worker = null, started = null
where seq = :seq and state in ('failed', 'cancelled')
