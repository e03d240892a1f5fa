-- claim_queue: what bounds the claim of a queue. Locks its limit, so that one claim counts its
-- places at a time; `claim_show` is a later statement and sees what the others have started.
-- In: queue.  Out: the stored limit, and the number of its rate; no row if there is no limit.
select l.stored_limit::text, l.tat_us from mita._queue_limit as l
where l.queue = %(queue)s
for update
