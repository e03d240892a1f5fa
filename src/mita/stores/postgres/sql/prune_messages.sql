-- prune_messages: delete event messages that are older than this.  In: keep (ms).  Out: no row.
delete from mita._told where at < {now} - %(keep)s::bigint
