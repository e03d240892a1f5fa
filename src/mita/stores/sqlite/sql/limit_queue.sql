-- Set or remove the limit of a queue.  In: queue, stored_limit (JSON or null), tat_us.
update _mita_queue set stored_limit = :stored_limit, tat_us = :tat_us where name = :queue
