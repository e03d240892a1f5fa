-- Take over jobs whose lease has expired, with a new token.  In: seqs (a JSON list), until, worker.
update _mita_job set token = token + 1, worker = :worker, lease_until = :until
where seq in (select value from json_each(:seqs))
