-- Whether any queue is paused, limited or has groups, or any key is on hold or waits for its rate.
-- Out: 1 or 0.
select exists (select 1 from _mita_queue
               where paused is not null or stored_limit is not null or has_groups)
    or exists (select 1 from _mita_hold)
    or exists (select 1 from _mita_key indexed by _mita_wake where wake_at is not null)
