-- The values that a job has stored.  In: id.  Out: name, value.
select v.name, v.value from _mita_once_value as v join _mita_job as j on j.seq = v.job
where j.id = :id order by v.name
