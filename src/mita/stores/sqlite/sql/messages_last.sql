-- messages_last: where those begin who listen from now on.
select coalesce((select seq from sqlite_sequence where name = '_mita_told'), 0)
