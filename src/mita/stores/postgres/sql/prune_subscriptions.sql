-- prune_subscriptions: delete subscriptions that were not renewed.  In: nothing.  Out: no row.
delete from mita._ear where until <= {now}
