-- Delete the oldest entries of the audit log beyond so many.  In: most.
delete from _mita_audit where seq <= (select max(seq) from _mita_audit) - :most
