-- free_uniques_of: the unique keys of a job are free.  In: seq.
delete from _mita_unique where id = (select id from _mita_job where seq = :seq)
