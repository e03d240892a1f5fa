-- The jobs that are told something.
-- In: ids (a JSON list).  Out: one text, a JSON list of [id, seq, queue, state].
select json_group_array(json_array(id, seq, queue, state)) from _mita_job
where id in (select value from json_each(:ids))
