-- messages_last: where those begin who listen from now on.
select coalesce(pg_sequence_last_value(pg_get_serial_sequence('mita._told', 'seq')), 0)::bigint
