-- Which of these keys have jobs that wait there, and the first of them. `seq` is null if more is to
-- be looked at: the job has other gates too, or the key has a rate or a limit.
-- In: queue, keys (a JSON list).
-- Out: one text, a JSON list of [key, seq, how many jobs may have the key, how many running jobs
-- have it, until when it is on hold].
select json_group_array(json_array(
  v.value,
  case when k.key is null and j.resource = v.value and j.gates = '[]'
         and typeof(j.most) = 'integer' then j.seq end,
  iif(typeof(j.most) = 'integer', j.most, 1),
  (select count(*) from _mita_job indexed by _mita_holders
   where resource is not null and state = {running} and queue = :queue and resource = v.value)
  + (select count(*) from _mita_holder where queue = :queue and key = v.value),
  (select until from _mita_hold
   where queue = :queue and key = v.value and typeof(until) = 'integer')))
from json_each(:keys) as v
cross join _mita_job as j on j.seq = (
  select seq from _mita_job indexed by _mita_waiters
  where state = {blocked} and queue = :queue and blocked_at = v.value
  order by priority desc, due, seq limit 1)
left join _mita_key as k on k.queue = :queue and k.key = v.value
