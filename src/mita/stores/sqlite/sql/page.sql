-- Jobs that match, newest first.  In: {where} (comparisons with bound values), limit.
select {job_columns} from _mita_job where {where} order by id desc limit :limit
