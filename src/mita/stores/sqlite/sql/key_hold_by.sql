-- A running job takes keys beside its resource key.  In: {rows} of queue, key, job.
insert into _mita_holder (queue, key, job) select r.* from (values {rows}) as r where true
on conflict do nothing
