-- In: now.
delete from _mita_lock where until <= :now
