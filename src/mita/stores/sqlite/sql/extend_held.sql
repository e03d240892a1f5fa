-- Which claims are still valid, and what was asked of their jobs.
-- In: {rows} of seq, token.  Out: one text, a JSON list of [seq, token, asked].
select json_group_array(json_array(j.seq, j.token, j.asked))
from (values {rows}) as v
cross join _mita_job as j on j.seq = v.column1 and j.token = v.column2 and j.state = {running}
