-- The jobs that a newer one replaces at its key.  In: seqs (a JSON list).  Out: id, task.
select id, task from _mita_job where seq in (select value from json_each(:seqs)) order by seq
