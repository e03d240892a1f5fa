-- Give a job that does not run other arguments.  In: seq, payload.
update _mita_job set payload = :payload where seq = :seq and state in {may_rewrite}
