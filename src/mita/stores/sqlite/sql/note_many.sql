-- Add a line to the timeline of each of these jobs.
-- In: at, whether their runs have ended; then {rows} of seq, kind, note, error ('' for none),
-- worker (null: after a run, the one that has the job).
insert into _mita_event (job, n, at, kind, note, worker, error, started)
select v.column1,
       coalesce((select max(e.n) from _mita_event as e where e.job = v.column1), 0) + 1,
       ?1, v.column2, v.column3, coalesce(v.column5, iif(?2, j.worker, null)), v.column4,
       case when v.column4 <> '' then j.started end
from (values {rows}) as v join _mita_job as j on j.seq = v.column1
