-- doctor_dead_rows: In: nothing.  Out: dead rows, live rows, seconds since the last vacuum.
select n_dead_tup, n_live_tup,
       floor(extract(epoch from clock_timestamp() - greatest(last_autovacuum, last_vacuum)))::bigint
from pg_stat_user_tables where relid = 'mita._job'::regclass
