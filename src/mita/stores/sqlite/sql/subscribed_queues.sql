-- The queues that have a subscriber.  In: now.
select distinct queue from _mita_ear where until > :now and typeof(until) = 'integer'
