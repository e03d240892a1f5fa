-- doctor_snapshots: the session that keeps the oldest dead rows from being vacuumed.  In: nothing.
-- Out: pid, user, application, client, state, seconds, the beginning of its last statement.
select pid, usename::text, application_name, client_addr::text, state,
       floor(extract(epoch from clock_timestamp() - xact_start))::bigint,
       left(regexp_replace(query, '\s+', ' ', 'g'), 80)
from pg_stat_activity
where (backend_xmin is not null or backend_xid is not null)
  and pid <> pg_backend_pid() and xact_start is not null and backend_type = 'client backend'
order by greatest(age(backend_xmin), age(backend_xid)) desc, xact_start
limit 1
