-- insert_alike: take jobs in that differ in id, due time and payload alone: every value that is bound costs as much as a
-- column that is written, so what they share is said once.
-- In: task, queue, priority, created, options, headers, resource, most, when_busy, uniq, unique_for, repeat, fire_time; then
--     {rows} of id, due, payload.  An id that is already there is passed over.
insert into _mita_job (state, task, queue, priority, created, options, headers, resource, most, when_busy, uniq,
                       unique_for, repeat, fire_time, due_fixed, id, due, payload)
select 'queued', s.*, r.*
from (values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) as s
cross join (values {rows}) as r
where true
on conflict (id) do nothing
