-- publish: a batch of events for those who listen.  In: queue, count, events.
insert into mita._told (at, queue, count, events) values ({now}, %(queue)s, %(count)s, %(events)s::bytea)
