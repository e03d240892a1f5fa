-- forget_subscriptions: forget those who fell silent.
delete from mita._ear where until <= {now}
