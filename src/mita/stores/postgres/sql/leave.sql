-- leave: remove a worker.  In: id.  Out: no row.
delete from mita._worker where id = %(id)s
