-- publish_trim: delete all but the newest messages.  In: most (how many stay).  Out: no row.
delete from mita._told where seq <= (select max(seq) from mita._told) - %(most)s::bigint
