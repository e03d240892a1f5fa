-- Claim jobs.  In: seqs (a JSON list), now, until, worker.
update _mita_job
set state = {to_claim}, token = token + 1, worker = :worker, started = :now, lease_until = :until
where seq in (select value from json_each(:seqs))
