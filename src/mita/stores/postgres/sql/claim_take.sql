-- claim_take: claim jobs with a resource key that may run, under the tokens that `claim` has shown;
-- not if another worker had claimed one meanwhile.
-- In: ids, tokens, lease, worker.  Out: the ids of the claimed jobs.
update mita._job as j
set state = {to_claim}, token = v.token, worker = %(worker)s,
    started = clock.now, lease_until = clock.now + %(lease)s::bigint
from unnest(%(ids)s::text::text[], %(tokens)s::text::bigint[]) as v (id, token),
     (select {now} as now) as clock
where j.id = v.id and j.state = {hidden_queued} and j.token < v.token
returning j.id
