-- resume: resume queues.  In: names.  Out: the queues that were paused.
delete from mita._paused as p
using unnest(%(names)s::text::text[]) as v (name) where p.name = v.name
returning p.name
