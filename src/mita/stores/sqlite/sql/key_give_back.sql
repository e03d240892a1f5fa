-- A start did not happen: its token is given back.  In: queue, key, tat_us, woken_us.
update _mita_key set tat_us = :tat_us, woken_us = :woken_us where queue = :queue and key = :key
