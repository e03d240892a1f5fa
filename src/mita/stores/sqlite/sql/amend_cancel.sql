-- Cancel a waiting job.  In: seq, now, expires.
update _mita_job set state = {to_cancel}, blocked_at = null, finished = :now, expires = :expires
where seq = :seq and state in {waiting}
