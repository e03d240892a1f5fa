-- load_once_shared: what is remembered for all jobs under a name.  In: name.
select m.value from mita._memo as m where m.name = %(name)s and m.expires > {now}
