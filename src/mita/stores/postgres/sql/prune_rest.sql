-- prune_rest: shared memos, unique keys and locks whose time is over.
with memos as (delete from mita._memo where expires <= {now}),
  locks as (delete from mita._lock where until <= {now})
delete from mita._unique where until <= {now}
