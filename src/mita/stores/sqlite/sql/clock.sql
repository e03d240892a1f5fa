-- clock: what the file says of its clock.  Out: one text, or no row.
select value from _mita_meta where name = 'clock'
