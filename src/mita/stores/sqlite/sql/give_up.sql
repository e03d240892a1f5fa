-- give_up: waiting jobs end without having run.  In: seqs (a JSON list), busy (to add), now, expires.
update _mita_job set state = 'cancelled', busy = busy + :busy, finished = :now, expires = :expires
where seq in (select value from json_each(:seqs)) and state in ('queued', 'blocked')
