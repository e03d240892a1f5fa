-- In: names (a JSON list), now.
update _mita_queue set paused = coalesce(paused, :now)
where name in (select value from json_each(:names))
