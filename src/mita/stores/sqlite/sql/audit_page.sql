-- Entries of the audit log that match, newest first.  In: after, before, who, what, target, limit.
select id, at, entry from _mita_audit
where id < :after and at > :before
  and (:who is null or who = :who)
  and (:what is null or what = :what)
  and (:target is null or instr(target, :target) > 0)
order by id desc limit :limit
