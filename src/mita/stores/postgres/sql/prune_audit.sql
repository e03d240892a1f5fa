-- prune_audit: delete entries of the audit log that are too old. Only the oldest are looked at, so
-- that a long log costs no more than a short one.
-- In: keep (ms).  Out: no row.
delete from mita._audit where seq = any (array(
  select seq from (select seq, at from mita._audit order by seq limit 100) as oldest
  where at <= {now} - %(keep)s::bigint))
