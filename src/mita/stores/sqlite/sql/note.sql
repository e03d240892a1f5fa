-- note: one line of a job's timeline.  In: job, at, kind, note, worker.
insert into _mita_event (job, n, at, kind, note, worker)
select :job, coalesce(max(n), 0) + 1, :at, :kind, :note, :worker from _mita_event where job = :job
