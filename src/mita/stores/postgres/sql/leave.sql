-- leave: a worker says goodbye.  In: id.
delete from mita._worker where id = %(id)s
