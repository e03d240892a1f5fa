-- unlock: give a name back.  In: name, holder.  Out: a row when it was this holder's.
delete from mita._lock where name = %(name)s and holder = %(holder)s returning name
