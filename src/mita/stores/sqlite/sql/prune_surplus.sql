-- Succeeded jobs of one queue beyond its newest :most.  In: queue, most, limit.
select seq from _mita_job indexed by _mita_done
where finished is not null and state = {succeeded} and queue = :queue
order by finished desc, seq desc limit :limit offset :most
