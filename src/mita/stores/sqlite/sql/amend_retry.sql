-- A failed or cancelled job runs again, as if it had never run.  In: seq, due, fixed.
update _mita_job
set state = {to_revive}, due = :due, due_fixed = :fixed, blocked_at = null, {reset_on_retry}
where seq = :seq and state in {from_revive}
