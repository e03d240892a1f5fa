-- subscribe_end: remove a subscription.  In: id.  Out: no row.
delete from mita._ear where id = %(id)s
