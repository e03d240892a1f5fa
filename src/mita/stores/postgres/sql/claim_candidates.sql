-- candidates: of jobs that `claim` has shown, those that still wait.  In: ids.  Out: id, most, when_busy.
select j.id, j.most, j.when_busy
from unnest(%(ids)s::text::text[]) as v (id)
join mita._job as j on j.id = v.id
where j.state = {queued}
for update of j skip locked
