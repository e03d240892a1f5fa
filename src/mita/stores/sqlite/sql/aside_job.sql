-- A job whose record cannot be read becomes a failed job. Its other columns stay as they are.
-- In: seq, now, expires, error.
update _mita_job
set state = {failed}, finished = :now, expires = :expires, error = coalesce(error, :error)
where seq = :seq
