-- timeline: In: id.  Out: how much ever happened, and the newest lines.
select happened, timeline from mita._job where id = %(id)s
