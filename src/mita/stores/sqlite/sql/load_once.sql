-- load_once: what is remembered under a name.  In: job (0: shared), name, now.  Out: the value, or no row.
select value from _mita_memo where job = :job and name = :name and (expires is null or expires > :now)
