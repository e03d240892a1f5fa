-- fresh: which claims are still held, with nothing asked of them meanwhile.
-- In: {rows} of seq, token.  Out: one text, a JSON list of [seq, token].
select json_group_array(json_array(j.seq, j.token))
from (values {rows}) as v
cross join _mita_job as j on j.seq = v.column1 and j.token = v.column2 and j.state = 'running' and j.asked is null
