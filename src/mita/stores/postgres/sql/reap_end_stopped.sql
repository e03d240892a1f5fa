-- reap_end_stopped: end sessions of ours that were stopped while they sent a transaction, and keep
-- its rows locked. From PostgreSQL 17 on the server does that itself (`transaction_timeout`).
-- In: mark (the lock that marks a session as ours), seconds.  Out: a row for each session.
select pg_terminate_backend(a.pid)
from pg_locks as l join pg_stat_activity as a on a.pid = l.pid
where current_setting('server_version_num')::int < 170000
  and l.locktype = 'advisory' and l.classid = 0 and l.objid = %(mark)s::bigint::oid
  and l.objsubid = 1 and l.database = a.datid
  and a.datname = current_database() and a.usename = current_user
  and a.state = 'active' and a.wait_event = 'ClientRead'
  and a.xact_start < clock_timestamp() - make_interval(secs => %(seconds)s::float8)
