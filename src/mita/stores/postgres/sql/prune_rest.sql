-- prune_rest: delete shared `once` values, unique keys and locks that have expired.
-- In: nothing.  Out: no row.
with memos as (delete from mita._memo where expires <= {now}),
  locks as (delete from mita._lock where until <= {now})
delete from mita._unique where until <= {now}
