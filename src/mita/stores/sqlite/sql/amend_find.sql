-- In: id.  Out: seq, id, queue, state, asked, uniq, unique_for; or no row.
select seq, id, queue, state, asked, uniq, unique_for from _mita_job where id = :id
