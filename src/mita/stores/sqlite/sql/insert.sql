-- insert: take jobs in.
-- In: {rows} of id, task, queue, priority, due, created, payload, options, headers, resource, most, when_busy, uniq,
--     unique_for, repeat, fire_time.  An id that is already there is passed over.
insert into _mita_job (state, id, task, queue, priority, due, created, payload, options, headers,
                       resource, most, when_busy, uniq, unique_for, repeat, fire_time)
select 'queued', column1, column2, column3, column4, column5, column6, column7, column8, column9,
       column10, column11, column12, column13, column14, column15, column16
from (values {rows})
where true
on conflict (id) do nothing
