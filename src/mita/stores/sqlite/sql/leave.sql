-- leave: a worker says goodbye.  In: id.
delete from _mita_worker where id = :id
