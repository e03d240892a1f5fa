-- The numbers (seq) of failed jobs, in any order.  In: queue (null for any), most.
select seq from _mita_job indexed by _mita_dead
where state = {failed} and (:queue is null or queue = :queue) limit :most
