-- Change the priority of a job.  In: seq, priority.
update _mita_job set priority = :priority where seq = :seq and state in {may_prioritise}
