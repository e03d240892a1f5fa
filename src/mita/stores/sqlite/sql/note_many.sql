-- note_many: one line in the timeline of each of these running jobs.  In: {rows} of seq, at, kind, note.
insert into _mita_event (job, n, at, kind, note, worker)
select v.column1, coalesce((select max(e.n) from _mita_event as e where e.job = v.column1), 0) + 1, v.column2, v.column3, v.column4,
       (select j.worker from _mita_job as j where j.seq = v.column1)
from (values {rows}) as v
