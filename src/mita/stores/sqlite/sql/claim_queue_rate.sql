-- Store the number of a queue's rate.  In: queue, tat_us.
update _mita_queue set tat_us = :tat_us where name = :queue
