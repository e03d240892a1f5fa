-- messages_trim: keep the newest.  In: most.
delete from mita._told where seq <= (select max(seq) from mita._told) - %(most)s::bigint
