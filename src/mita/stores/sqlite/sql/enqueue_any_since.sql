-- Whether there is a job with this id or a later one.  In: id.  Out: 1 or 0.
select exists (select 1 from _mita_job where id >= :id)
