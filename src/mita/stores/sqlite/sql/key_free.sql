-- Jobs do not run any more, and do not have these keys.  In: {rows} of queue, key, job.
delete from _mita_holder where (queue, key, job) in (values {rows})
