-- record_audit: add entries to the audit log, unless they are there.
-- In: ids, whos, whats, targets, entries (arrays of one length).  Out: no row.
insert into mita._audit (id, at, who, what, target, entry)
select id, {now}, who, what, target, entry
from unnest(%(ids)s::text::text[], %(whos)s::text::text[], %(whats)s::text::text[],
            %(targets)s::text::text[], %(entries)s::text::bytea[])
  as new (id, who, what, target, entry)
on conflict (id) do nothing
