-- The numbers (seq) of blocked jobs, in any order.  In: queue (null for any), most.
select seq from _mita_job indexed by _mita_waiters
where state = {blocked} and (:queue is null or queue = :queue) limit :most
