-- Insert jobs.  In: {rows} of the values of {insert_columns}.
-- An id that exists already is skipped.
insert into _mita_job (state, {insert_columns})
select {queued}, r.* from (values {rows}) as r where true
on conflict (id) do nothing
