-- resume: In: names.  Out: the queues that were paused.
update mita._queue as q set paused = null
from unnest(%(names)s::text::text[]) as v (name) where q.name = v.name and q.paused is not null
returning q.name
