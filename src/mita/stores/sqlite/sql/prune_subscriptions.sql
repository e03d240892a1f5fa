-- Subscriptions that were not renewed.  In: now.
delete from _mita_ear where until <= :now or typeof(until) <> 'integer'
