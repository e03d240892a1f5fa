-- Out: whether any queue is paused, limited or has groups; whether any key is on hold; whether any
-- key waits for its rate. Each is 1 or 0.
select exists (select 1 from _mita_queue
               where paused is not null or stored_limit is not null or has_groups),
       exists (select 1 from _mita_hold),
       exists (select 1 from _mita_key indexed by _mita_wake where wake_at is not null)
