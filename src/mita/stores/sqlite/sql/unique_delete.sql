-- A job is deleted. A unique key that it still has is free at once.  In: seq.
delete from _mita_unique
where queue = (select queue from _mita_job where seq = :seq)
  and key = (select uniq from _mita_job where seq = :seq)
  and id = (select id from _mita_job where seq = :seq)
