-- Release a lock.  In: name, holder.
delete from _mita_lock where name = :name and holder = :holder
