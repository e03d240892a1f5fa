-- The same as `enqueue_insert_alike` for jobs with gates or a group.
-- In: the shared values of {limited_columns}; then {rows} of id, due, payload.
insert into _mita_job (state, {limited_columns})
select {queued}, s.*, r.* from (values ({limited_marks})) as s cross join (values {rows}) as r
where true
on conflict (id) do nothing
