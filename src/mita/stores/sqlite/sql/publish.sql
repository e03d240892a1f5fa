-- Add a message for subscribers.  In: at, queue, count, events.
insert into _mita_told (at, queue, count, events) values (:at, :queue, :count, :events)
