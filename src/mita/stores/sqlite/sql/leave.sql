-- A worker has stopped.  In: id.
delete from _mita_worker where id = :id
