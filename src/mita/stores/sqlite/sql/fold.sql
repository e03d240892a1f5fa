-- fold: of a job's timeline only the newest lines stay.  In: job, keep.
delete from _mita_event where job = :job and n <= (select max(n) from _mita_event where job = :job) - :keep
