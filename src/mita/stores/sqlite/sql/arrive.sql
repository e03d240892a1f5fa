-- A queued job that enough other jobs have told how they ended is due now.  In: seq, now, needs.
update _mita_job set due = min(due, :now), due_fixed = 0
where seq = :seq and state = {queued} and due > :now and :needs <= (
  select count(*) from _mita_once_value
  where job = :seq and name >= {arrivals_from} and name < {arrivals_to})
