-- claim_start: claim jobs that `claim_show` has shown; not those that were changed meanwhile.
-- In: ids, lease, worker.  Out: the fields of a Claim.
update mita._job as j
set state = {to_claim}, token = greatest(j.token + 1, clock.now), worker = %(worker)s,
    started = clock.now, lease_until = clock.now + %(lease)s::bigint
from unnest(%(ids)s::text::text[]) as v (id), (select {now} as now) as clock
where j.id = v.id and j.state = {hidden_queued}
returning {started}
