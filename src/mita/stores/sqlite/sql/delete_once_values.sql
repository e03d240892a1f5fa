-- In: seqs (a JSON list).
delete from _mita_once_value where job in (select value from json_each(:seqs))
