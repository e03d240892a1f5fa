-- fresh: which claims are still held, with nothing asked of them meanwhile.
-- In: {rows} of seq, token.  Out: one text, the JSON list of their seqs.
select json_group_array(j.seq)
from (values {rows}) as v
cross join _mita_job as j on j.seq = v.column1 and j.token = v.column2 and j.state = 'running' and j.asked is null
