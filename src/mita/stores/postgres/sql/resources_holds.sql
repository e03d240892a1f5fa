-- resources_holds: the keys on hold.  In: queue, key (null for any).  Out: queue, key, until.
select queue, key, until from mita._hold
where until > {now}
  and (%(queue)s::text is null or queue = %(queue)s)
  and (%(key)s::text is null or key = %(key)s)
