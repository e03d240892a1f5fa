-- Unique keys that are free again.  In: now.
delete from _mita_unique
where until is not null and (until <= :now or typeof(until) <> 'integer')
