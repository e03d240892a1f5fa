-- progress: store the progress of runs.
-- In: ids, tokens, reports.  Out: id, token; of the claims that are still held.
update mita._job as j set progress = v.report
from unnest(%(ids)s::text::text[], %(tokens)s::text::bigint[], %(reports)s::text::bytea[])
  as v (id, token, report)
where j.id = v.id and j.token = v.token and j.state = {hidden_running}
returning j.id, j.token
