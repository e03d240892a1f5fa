-- insert: take jobs in.
-- In: {rows} of task, queue, priority, created, options, headers, resource, most, when_busy, uniq, unique_for, repeat,
--     fire_time, due_fixed, id, due, payload.  An id that is already there is passed over.
insert into _mita_job (state, task, queue, priority, created, options, headers, resource, most, when_busy, uniq,
                       unique_for, repeat, fire_time, due_fixed, id, due, payload)
select 'queued', r.*
from (values {rows}) as r
where true
on conflict (id) do nothing
