-- In: id.
delete from _mita_subscription where id = :id
