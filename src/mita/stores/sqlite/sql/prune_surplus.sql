-- Succeeded jobs of one queue beyond its newest :most, the oldest first.  In: queue, most, limit.
select seq from _mita_job indexed by _mita_done
where finished is not null and state = {succeeded} and queue = :queue
  and (finished, seq) <= (
    select finished, seq from _mita_job indexed by _mita_done
    where finished is not null and state = {succeeded} and queue = :queue
    order by finished desc, seq desc limit 1 offset :most
  )
order by finished, seq limit :limit
