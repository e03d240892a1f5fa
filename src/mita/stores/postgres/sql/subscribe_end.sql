-- unsubscribe: he listens no more.  In: id.
delete from mita._ear where id = %(id)s
