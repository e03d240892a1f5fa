-- The virtual times of a queue and of its groups.
-- In: queue.  Out: priority, group (null: the queue's own), virtual time.
select priority, null, virtual from _mita_turn where queue = :queue
union all
select priority, fair, finished from _mita_share where queue = :queue
