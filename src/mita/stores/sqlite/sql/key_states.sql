-- What is known of several keys, without those for which an operator has set a limit.
-- In: queue, keys (a JSON list), counted: as in `key_state`.
-- Out: one text, a JSON list of [key, how many running jobs have it, until when it is on hold,
-- whether it has a record, tat_us, woken_us, wake_at, whether jobs wait at it].
select json_group_array(json_array(
  v.value,
  case when :counted then
    (select count(*) from _mita_job indexed by _mita_holders
     where resource is not null and state = {running} and queue = :queue and resource = v.value)
    + (select count(*) from _mita_holder where queue = :queue and key = v.value)
  else 0 end,
  (select until from _mita_hold
   where queue = :queue and key = v.value and typeof(until) = 'integer'),
  k.key is not null,
  iif(typeof(k.tat_us) = 'integer', k.tat_us, null),
  iif(typeof(k.woken_us) = 'integer', k.woken_us, null),
  iif(typeof(k.wake_at) = 'integer', k.wake_at, null),
  k.key is not null and exists (
    select 1 from _mita_job indexed by _mita_waiters
    where state = {blocked} and queue = :queue and blocked_at = v.value)))
from json_each(:keys) as v left join _mita_key as k on k.queue = :queue and k.key = v.value
where k.stored_limit is null
