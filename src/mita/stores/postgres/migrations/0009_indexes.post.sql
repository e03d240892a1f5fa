-- Indexes of earlier schemas: `_ungrouped` and `_grouped` do the work of `_ready`, and `_blocked`
-- that of `_waiters`.
drop index if exists mita._ready;
drop index if exists mita._waiters;
