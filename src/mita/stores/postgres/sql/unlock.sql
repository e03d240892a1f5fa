-- unlock: release a named lock.  In: name, holder.  Out: a row if this holder had it.
delete from mita._lock where name = %(name)s and holder = %(holder)s returning name
