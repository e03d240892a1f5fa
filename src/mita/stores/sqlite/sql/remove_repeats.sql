-- In: key.
delete from _mita_repeat where key = :key
