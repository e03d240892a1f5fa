-- amend_prioritise: another priority.  In: seq, priority.
update _mita_job set priority = :priority where seq = :seq and state in ('queued', 'blocked', 'running')
