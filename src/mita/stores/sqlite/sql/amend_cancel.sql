-- Cancel a waiting job.  In: seq, now, expires.
update _mita_job set state = {to_cancel}, finished = :now, expires = :expires
where seq = :seq and state in {waiting}
