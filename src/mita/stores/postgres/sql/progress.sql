-- progress: how far runs have come.  In: ids, tokens, reports (one for each id).  Out: id, token; of those still held.
update mita._job as j set progress = v.report
from unnest(%(ids)s::text::text[], %(tokens)s::text::bigint[], %(reports)s::text::bytea[]) as v (id, token, report)
where j.id = v.id and j.token = v.token and j.state = {running}
returning j.id, j.token
