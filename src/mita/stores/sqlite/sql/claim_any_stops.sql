-- Whether any queue is paused, and whether any resource key is on hold.  Out: 1 or 0, twice.
select exists (select 1 from _mita_queue where paused is not null),
       exists (select 1 from _mita_hold)
