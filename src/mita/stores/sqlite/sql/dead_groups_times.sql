-- When jobs of a group failed.  In: group, queue, task.
-- Out: when the first failed, and the id of one that failed last.
select
  (select finished from _mita_job indexed by _mita_dead
   where state = {failed} and coalesce(failure_group, '') = :group and queue = :queue
     and task = :task order by finished limit 1),
  (select id from _mita_job indexed by _mita_dead
   where state = {failed} and coalesce(failure_group, '') = :group and queue = :queue
     and task = :task order by finished desc, seq desc limit 1)
