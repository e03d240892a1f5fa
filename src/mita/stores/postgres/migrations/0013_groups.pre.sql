-- The fingerprint of a failure. Jobs that failed before have none; they are the group ''. With the
-- column beside the expression, the index alone answers how many jobs a group has.
alter table mita._job add column failure_group text collate "C";
create index _dead on mita._job
  ((coalesce(failure_group, '')), queue, task, finished, seq) include (failure_group)
  where state = 'failed';
