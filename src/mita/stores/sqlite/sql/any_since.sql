-- any_since: is there an id like this one or later?  In: id.  Out: 1 or 0.
select exists (select 1 from _mita_job where id >= :id)
