-- load_once_shared: the value stored under a name for all jobs.  In: name.  Out: the value.
select m.value from mita._memo as m where m.name = %(name)s and m.expires > {now}
