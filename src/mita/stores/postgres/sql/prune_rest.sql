-- prune_rest: shared memos and unique keys whose time is over.
with memos as (delete from mita._memo where expires <= {now})
delete from mita._unique where until <= {now}
