-- doctor_server: In: nothing.  Out: version, synchronous_commit, fsync, the server's clock in ms.
select current_setting('server_version'), current_setting('synchronous_commit'),
       current_setting('fsync'), floor(extract(epoch from clock_timestamp()) * 1000)::bigint
