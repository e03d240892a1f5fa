-- set_aside: a record that cannot be read becomes a failed job. Nothing else of it is changed.  In: seq, now, expires, error.
update _mita_job set state = 'failed', finished = :now, expires = :expires, error = coalesce(error, :error) where seq = :seq
