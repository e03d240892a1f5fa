-- How many bytes the values of a job have.  In: id.
select total(length(v.value)) from _mita_once_value as v join _mita_job as j on j.seq = v.job
where j.id = :id
