-- The same as `enqueue_insert_alike` for jobs with keys or a group, which differ in them too.
-- In: the shared values of {limited_columns}; then {rows} of the others.
insert into _mita_job (state, {limited_columns})
select {queued}, s.*, r.* from (values ({shared_marks})) as s cross join (values {rows}) as r
where true
on conflict (id) do nothing
