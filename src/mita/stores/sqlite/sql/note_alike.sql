-- The same as `note_many` after runs that ended alike.
-- In: at, kind, worker (null: the one that has the job), error ('' for none); then {rows} of seq,
-- note.
insert into _mita_event (job, n, at, kind, note, worker, error, started)
select v.column1,
       coalesce((select max(e.n) from _mita_event as e where e.job = v.column1), 0) + 1,
       ?1, ?2, v.column2, coalesce(?3, j.worker), ?4, case when ?4 <> '' then j.started end
from (values {rows}) as v join _mita_job as j on j.seq = v.column1
