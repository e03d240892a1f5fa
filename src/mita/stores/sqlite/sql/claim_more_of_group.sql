-- The next due jobs of one group, behind one of its jobs.
-- In: queue, priority, fair (null: none), now, due, seq, limit.  Out: a list as in `claim_groups`.
select json_group_array(json_array(due, seq, weight)) from (
  select due, seq, weight from _mita_job indexed by _mita_ready
  where state = {queued} and queue = :queue and priority = :priority and fair is :fair
    and due <= :now and (due, seq) > (:due, :seq)
  order by due, seq limit :limit)
