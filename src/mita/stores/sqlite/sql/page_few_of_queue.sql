-- The numbers (seq) of the jobs of a queue, in any order: each index has those of other states.
-- In: queue, most.
select seq from (
  select seq from _mita_job indexed by _mita_done where finished is not null and queue = :queue
  union all
  select seq from _mita_job indexed by _mita_ready where state = {queued} and queue = :queue
  union all
  select seq from _mita_job indexed by _mita_leased where state = {running} and queue = :queue
  union all
  select seq from _mita_job indexed by _mita_waiters where state = {blocked} and queue = :queue
) limit :most
