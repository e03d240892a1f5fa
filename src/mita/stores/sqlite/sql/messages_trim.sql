-- messages_trim: keep the newest.  In: most.
delete from _mita_told where seq <= (select max(seq) from _mita_told) - :most
