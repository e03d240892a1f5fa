-- The number of ready jobs of the same queue that start before this ready job. With ageing, the
-- order is due time minus priority times ageing.  In: id, now, ageing (null for strict priority).
select count(*) from _mita_job as me
cross join _mita_job as j indexed by _mita_ready
where me.id = :id and j.state = {queued} and j.queue = me.queue and j.due <= :now and (
  case when :ageing is null then -j.priority else j.due - j.priority * :ageing end,
  -j.priority, j.due, j.seq
) < (
  case when :ageing is null then -me.priority else me.due - me.priority * :ageing end,
  -me.priority, me.due, me.seq
)
