-- The values that a job has stored, if they are few bytes.
-- In: id.  Out: one text, a JSON list of [name, value in hexadecimal digits; null if damaged].
select json_group_array(json_array(name, case typeof(value) when 'blob' then hex(value) end)) from (
  select v.name, v.value from _mita_once_value as v join _mita_job as j on j.seq = v.job
  where j.id = :id order by v.name)
