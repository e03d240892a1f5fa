-- cancel: a waiting job does not run any more.  In: seq, now, expires.
update _mita_job set state = 'cancelled', finished = :now, expires = :expires
where seq = :seq and state in ('queued', 'blocked')
