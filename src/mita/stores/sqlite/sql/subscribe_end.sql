-- In: id.
delete from _mita_ear where id = :id
