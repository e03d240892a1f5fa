-- The queues that have a subscriber.  In: now.
select distinct queue from _mita_subscription where until > :now and typeof(until) = 'integer'
