-- In: seqs (a JSON list).
delete from _mita_event where job in (select value from json_each(:seqs))
