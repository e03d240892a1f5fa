-- In: names (a JSON list).
update _mita_queue set paused = null where name in (select value from json_each(:names))
