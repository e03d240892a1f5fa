-- subscribed_queues: the queues that somebody listens to.
select distinct queue from mita._ear where until > {now}
