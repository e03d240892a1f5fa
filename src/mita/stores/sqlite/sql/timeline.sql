-- timeline: In: id.  Out: at, kind, note, worker, error, started, oldest first.
select e.at, e.kind, e.note, e.worker, e.error, e.started
from _mita_event as e join _mita_job as j on j.seq = e.job
where j.id = :id order by e.n
