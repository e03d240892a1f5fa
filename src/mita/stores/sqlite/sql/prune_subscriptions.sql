-- Subscriptions that were not renewed.  In: now.
delete from _mita_subscription where until <= :now or typeof(until) <> 'integer'
