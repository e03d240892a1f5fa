-- Keep the newest messages only.  In: most.
delete from _mita_message where seq <= (select max(seq) from _mita_message) - :most
