-- once_values: the values that a job has stored.  In: id.  Out: name, value.
select v.key, decode(v.value, 'base64')
from mita._job as j, jsonb_each_text(j.memos) as v where j.id = %(id)s::text
