-- Values of `job.once` that all jobs share.  In: now.
delete from _mita_once_value where job = 0 and (expires <= :now or typeof(expires) <> 'integer')
