-- The number of the newest message: a new subscriber begins after it.
select coalesce((select seq from sqlite_sequence where name = '_mita_message'), 0)
