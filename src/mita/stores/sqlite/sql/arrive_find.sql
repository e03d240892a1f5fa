-- The jobs that are told something, and what they were told before.
-- In: told (a JSON list of [id, [name, …]]).
-- Out: one text, a JSON list of [id, seq, queue, state, [name, …]], with the names that are known.
select json_group_array(json_array(j.id, j.seq, j.queue, j.state, json((
  select json_group_array(o.name) from json_each(v.value, '$[1]') as n
  cross join _mita_once_value as o on o.job = j.seq and o.name = n.value
))))
from json_each(:told) as v cross join _mita_job as j on j.id = json_extract(v.value, '$[0]')
