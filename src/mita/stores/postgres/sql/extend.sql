-- extend: extend the leases of claims.
-- In: ids, tokens, lease.  Out: id, token, asked; of the claims that are still held.
update mita._job as j set lease_until = {now} + %(lease)s::bigint
from unnest(%(ids)s::text::text[], %(tokens)s::text::bigint[]) as v (id, token)
where j.id = v.id and j.token = v.token and j.state = {hidden_running}
returning j.id, j.token, j.asked
