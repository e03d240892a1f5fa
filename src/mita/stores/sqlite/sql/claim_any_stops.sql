-- Whether any queue is paused, or any resource key is on hold.  Out: 1 or 0.
select exists (select 1 from _mita_queue where paused is not null)
    or exists (select 1 from _mita_hold)
