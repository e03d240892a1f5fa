-- The resource keys on hold.  In: queue, key (null for any), now.
select queue, key, until from _mita_hold
where until > :now and typeof(until) = 'integer'
  and (:queue is null or queue = :queue) and (:key is null or key = :key)
