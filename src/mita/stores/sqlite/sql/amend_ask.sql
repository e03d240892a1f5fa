-- Ask something of a running job. It takes effect when the run ends.
-- In: seq, asked, due, fixed, keep.
update _mita_job set asked = :asked, asked_due = :due, asked_fixed = :fixed, asked_keep = :keep,
  reschedules = reschedules + (:asked = {asked_reschedule})
where seq = :seq and state = {running}
