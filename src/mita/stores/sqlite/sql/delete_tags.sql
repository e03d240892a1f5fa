-- In: seqs (a JSON list).
delete from _mita_tag where job in (select value from json_each(:seqs))
