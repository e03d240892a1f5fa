-- In: id.  Out: state, due.
select state, due from _mita_job where id = :id
