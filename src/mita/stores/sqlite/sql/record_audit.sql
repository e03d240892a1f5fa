-- Add an entry to the audit log, unless it is there.  In: id, at, who, what, target, entry.
insert into _mita_audit (id, at, who, what, target, entry)
values (:id, :at, :who, :what, :target, :entry)
on conflict (id) do nothing
