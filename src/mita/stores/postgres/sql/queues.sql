-- queues: all queues by name.  In: nothing.  Out: name, when it was paused or null.
select q.name, p.since
from (select name from mita._queue union select name from mita._paused) as q
left join mita._paused as p on p.name = q.name
order by q.name
