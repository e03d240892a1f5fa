-- subscribe_last: In: nothing.  Out: the number of the newest message.
select coalesce(
  pg_sequence_last_value(pg_get_serial_sequence('mita._told', 'seq')), 0)::bigint
