-- Add a line to the timeline of a job.  In: job, at, kind, note, worker, error ('' for none).
insert into _mita_event (job, n, at, kind, note, worker, error, started)
select :job, coalesce(max(n), 0) + 1, :at, :kind, :note, :worker, :error,
       case when :error <> '' then (select j.started from _mita_job as j where j.seq = :job) end
from _mita_event where job = :job
