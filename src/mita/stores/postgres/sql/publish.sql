-- publish: store a batch of events for subscribers.  In: queue, count, events.  Out: no row.
insert into mita._told (at, queue, count, events)
values ({now}, %(queue)s, %(count)s, %(events)s::bytea)
