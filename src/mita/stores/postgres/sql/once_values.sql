-- once_values: the values that a job has stored, in base64.  In: id.
-- Out: name, value; one row with null if they cannot be read.
select v.key, v.value
from mita._job as j,
  jsonb_each_text(case jsonb_typeof(j.memos) when 'object' then j.memos
                  when 'null' then '{}' else '{"": null}' end) as v
where j.id = %(id)s::text and j.memos is not null
