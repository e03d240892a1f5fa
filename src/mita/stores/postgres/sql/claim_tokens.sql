-- claim_tokens: store the number of a queue's rate.  In: queue, tat_us.  Out: no row.
update mita._queue_limit set tat_us = %(tat_us)s::bigint where queue = %(queue)s
