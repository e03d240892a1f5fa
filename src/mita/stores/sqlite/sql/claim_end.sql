-- Waiting jobs end without having run, because a key was busy.
-- In: seqs (a JSON list), busy (added to the counter), now, expires.
update _mita_job
set state = {to_skip}, busy = busy + :busy, blocked_at = null, finished = :now, expires = :expires
where seq in (select value from json_each(:seqs)) and state in {from_skip}
