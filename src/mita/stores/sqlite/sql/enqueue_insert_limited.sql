-- Insert jobs with keys or a group.  In: {rows} of the values of {limited_columns}.
-- An id that exists already is skipped.
insert into _mita_job (state, {limited_columns})
select {queued}, r.* from (values {rows}) as r where true
on conflict (id) do nothing
