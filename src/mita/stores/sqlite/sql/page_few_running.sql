-- The numbers (seq) of running jobs, in any order.  In: queue (null for any), most.
select seq from _mita_job indexed by _mita_leased
where state = {running} and (:queue is null or queue = :queue) limit :most
