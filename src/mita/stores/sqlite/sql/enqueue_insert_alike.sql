-- Insert jobs that differ only in id, due time and payload. Binding a value costs as much as
-- writing a column, so the values that the jobs share are bound once.
-- In: the shared values of {insert_columns}; then {rows} of id, due, payload.
-- An id that exists already is skipped.
insert into _mita_job (state, {insert_columns})
select {queued}, s.*, r.* from (values ({shared_marks})) as s cross join (values {rows}) as r
where true
on conflict (id) do nothing
