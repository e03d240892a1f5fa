-- The workers that are alive.  In: now.
select view from _mita_worker where until > :now and typeof(until) = 'integer' order by id
