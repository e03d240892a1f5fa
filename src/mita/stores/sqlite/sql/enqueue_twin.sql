-- The job that has a unique key.  In: id.  Out: seq, state, created; or no row.
select seq, state, created from _mita_job where id = :id
