-- In: seqs (a JSON list).
delete from _mita_job where seq in (select value from json_each(:seqs))
