-- subscribed_queues: In: nothing.  Out: the queues that have subscribers.
select distinct queue from mita._ear where until > {now}
