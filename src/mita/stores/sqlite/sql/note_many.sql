-- Add a line to the timeline of each of these running jobs.
-- In: {rows} of seq, at, kind, note, error ('' for none), worker (null for the job's own).
insert into _mita_event (job, n, at, kind, note, worker, error, started)
select v.column1,
       coalesce((select max(e.n) from _mita_event as e where e.job = v.column1), 0) + 1,
       v.column2, v.column3, v.column4, coalesce(v.column6, j.worker), v.column5,
       case when v.column5 <> '' then j.started end
from (values {rows}) as v join _mita_job as j on j.seq = v.column1
