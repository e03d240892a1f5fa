-- Which of these ids exist already.  In: ids (a JSON list).  Out: one text, a JSON list.
select json_group_array(id) from _mita_job where id in (select value from json_each(:ids))
