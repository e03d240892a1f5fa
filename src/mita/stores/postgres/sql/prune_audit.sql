-- prune_audit: delete entries of the audit log that are too old. Only the oldest are looked at, so
-- that a long log costs no more than a short one.
-- In: keep (ms).  Out: no row.
delete from mita._audit
where seq in (select seq from mita._audit order by seq limit 1000)
  and at <= {now} - %(keep)s::bigint
