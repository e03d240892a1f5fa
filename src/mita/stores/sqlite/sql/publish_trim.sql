-- Keep the newest messages only.  In: most.
delete from _mita_told where seq <= (select max(seq) from _mita_told) - :most
