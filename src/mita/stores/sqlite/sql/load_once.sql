-- The value of `job.once` with this name.  In: job (0: shared), name, now.  Out: it, or no row.
select value from _mita_once_value
where job = :job and name = :name and (expires is null or expires > :now)
