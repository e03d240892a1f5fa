-- A waiting job runs at another time.  In: seq, due, fixed.
update _mita_job
set state = {to_reschedule}, due = :due, due_fixed = :fixed, reschedules = reschedules + 1,
    blocked_at = null
where seq = :seq and state in {waiting}
