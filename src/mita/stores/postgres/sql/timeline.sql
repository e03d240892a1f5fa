-- timeline: In: id.  Out: its lines, or null.
select timeline from mita._job where id = %(id)s
