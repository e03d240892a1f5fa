-- doctor_dead_rows: Out: dead rows, live rows, seconds since they were last swept.
select n_dead_tup, n_live_tup, floor(extract(epoch from clock_timestamp() - greatest(last_autovacuum, last_vacuum)))::bigint
from pg_stat_user_tables where relid = 'mita._job'::regclass
