-- In: seqs (a JSON list).
delete from _mita_memo where job in (select value from json_each(:seqs))
