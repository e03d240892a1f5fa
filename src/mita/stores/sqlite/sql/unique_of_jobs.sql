-- The unique keys of some jobs.
-- In: seqs (a JSON list).  Out: queue, key, id, for how long the key stays taken after the job.
select queue, uniq, id, unique_for from _mita_job
where uniq is not null and seq in (select value from json_each(:seqs))
