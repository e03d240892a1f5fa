-- find: jobs by id.  In: ids.  Out: the columns in the order of the fields of Job.
select {job_columns} from mita._job where id = any (%(ids)s::text::text[])
