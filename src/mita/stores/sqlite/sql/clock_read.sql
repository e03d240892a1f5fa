-- The record of the file's clock.  Out: one text, or no row.
select value from _mita_meta where name = 'clock'
