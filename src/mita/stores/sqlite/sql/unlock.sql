-- unlock: give a lock back.  In: name, holder.
delete from _mita_lock where name = :name and holder = :holder
