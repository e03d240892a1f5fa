-- subscribed_queues: the queues that somebody listens to.  In: now.
select distinct queue from _mita_ear where until > :now and typeof(until) = 'integer'
