-- The fingerprint of a failure. Jobs that failed before have none; they are the group ''.
alter table _mita_job add column failure_group text;
create index _mita_dead on _mita_job (coalesce(failure_group, ''), queue, task, finished)
  where state = 'failed';
