-- now: the store's clock.
select {now}
