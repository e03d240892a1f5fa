-- Delete entries of the audit log that are too old. Only the oldest are looked at, so that a long
-- log costs no more than a short one.  In: before.
delete from _mita_audit where seq in (
  select seq from (select seq, at from _mita_audit order by seq limit 100) where at <= :before)
