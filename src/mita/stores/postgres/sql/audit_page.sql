-- audit_page: entries of the audit log that match, newest first.
-- In: after, keep (ms), who, what, target, limit.  Out: id, at, entry.
select id, at, entry from mita._audit
where id < %(after)s::text and at > {now} - %(keep)s::bigint
  and (%(who)s::text is null or who = %(who)s::text)
  and (%(what)s::text is null or what = %(what)s::text)
  and (%(target)s::text is null or position(%(target)s::text in target) > 0)
order by id desc limit %(limit)s::bigint
