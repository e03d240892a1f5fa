-- Rates that are full again, unless jobs wait or an operator has set a limit.  In: now_us.
delete from _mita_key as k
where k.stored_limit is null and (k.tat_us <= :now_us or typeof(k.tat_us) <> 'integer')
  and not exists (
    select 1 from _mita_job indexed by _mita_waiters
    where state = {blocked} and queue = k.queue and blocked_at = k.key)
