-- Add a message for subscribers.  In: at, queue, count, events.
insert into _mita_message (at, queue, count, events) values (:at, :queue, :count, :events)
