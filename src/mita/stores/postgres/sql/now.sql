-- now: In: nothing.  Out: the store's clock.
select {now}
