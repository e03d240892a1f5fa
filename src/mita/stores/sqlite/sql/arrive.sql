-- These jobs are due now.  In: seqs (a JSON list), now.
update _mita_job set due = min(due, :now), due_fixed = 0
where seq in (select value from json_each(:seqs))
