-- forget_locks: locks whose time is over.  In: now.
delete from _mita_lock where until <= :now
