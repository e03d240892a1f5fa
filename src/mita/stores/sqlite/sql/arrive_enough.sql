-- Which of these queued jobs enough other jobs have told how they ended.
-- In: needs (a JSON list of [seq, needs]), now.  Out: one text, a JSON list of their seqs.
select json_group_array(j.seq) from json_each(:needs) as v
cross join _mita_job as j on j.seq = json_extract(v.value, '$[0]')
where j.state = {queued} and j.due > :now and json_extract(v.value, '$[1]') <= (
  select count(*) from _mita_once_value as o
  where o.job = j.seq and o.name >= {arrivals_from} and o.name < {arrivals_to})
