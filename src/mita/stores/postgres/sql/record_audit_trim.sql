-- record_audit_trim: delete the oldest entries of the audit log beyond so many.
-- In: most.  Out: no row.
delete from mita._audit where seq <= (select max(seq) from mita._audit) - %(most)s::bigint
