-- Tags of jobs that were stored just now.  In: {rows} of a tag and the id of its job.
insert into _mita_tag (tag, job)
select r.column1, j.seq from (values {rows}) as r join _mita_job as j on j.id = r.column2
