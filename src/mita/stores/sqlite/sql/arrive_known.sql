-- What these jobs were told before.
-- In: told (a JSON list of [seq, name]).  Out: one text, a JSON list of [seq, name].
select json_group_array(json_array(o.job, o.name)) from json_each(:told) as v
cross join _mita_once_value as o
  on o.job = json_extract(v.value, '$[0]') and o.name = json_extract(v.value, '$[1]')
