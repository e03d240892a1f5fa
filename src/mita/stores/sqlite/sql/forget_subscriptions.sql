-- forget_subscriptions: forget those who fell silent.  In: now.
delete from _mita_ear where until <= :now or typeof(until) <> 'integer'
