-- claim_candidates: those of the jobs shown by `claim` that still wait; locks them.
-- In: ids.  Out: id, most (how many may hold the key), when_busy.
select j.id, j.most, j.when_busy
from unnest(%(ids)s::text::text[]) as v (id)
join mita._job as j on j.id = v.id
where j.state = {hidden_queued}
for update of j skip locked
