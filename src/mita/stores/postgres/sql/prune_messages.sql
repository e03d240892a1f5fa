-- messages_forget: what everybody has heard by now.  In: keep.
delete from mita._told where at < {now} - %(keep)s::bigint
