-- Delete workers whose last heartbeat has expired.  In: now.
delete from _mita_worker where until <= :now or typeof(until) <> 'integer'
