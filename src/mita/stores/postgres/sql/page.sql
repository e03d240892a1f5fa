-- page: the jobs that match a filter, newest first.
-- In: {where} (a condition), its values, limit.  Out: the columns in the order of Job's fields.
select {job_columns}
from mita._job where {where} order by id desc limit %(limit)s::bigint
