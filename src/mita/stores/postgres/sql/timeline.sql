-- timeline: In: id.  Out: the lines of the job's timeline, or null.
select timeline from mita._job where id = %(id)s
