-- Free all unique keys of a job whose record cannot be read.  In: seq.
delete from _mita_unique where id = (select id from _mita_job where seq = :seq)
