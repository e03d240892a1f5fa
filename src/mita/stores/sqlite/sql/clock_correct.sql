-- Move the clock. Every point in time that was counted from "now" moves too, so that delays and
-- leases keep their length.  In: by.
update _mita_job set due = case when due_fixed then due else due + :by end,
  stranded = stranded + :by
where state in {alive} and (not due_fixed or stranded is not null);
update _mita_job indexed by _mita_leased
set lease_until = lease_until + :by,
    asked_due = case when asked_fixed then asked_due else asked_due + :by end
where state = {running};
update _mita_job indexed by _mita_expires set expires = expires + :by where expires is not null;
update _mita_hold set until = until + :by where not fixed;
update _mita_queue set tat_us = tat_us + :by * 1000 where tat_us > 0;
update _mita_key set tat_us = tat_us + :by * 1000, woken_us = woken_us + :by * 1000,
  wake_at = wake_at + :by;
update _mita_unique set until = until + :by where until is not null;
update _mita_once_value set expires = expires + :by where expires is not null;
update _mita_worker set seen = seen + :by, until = until + :by;
update _mita_lock set until = until + :by;
update _mita_subscription set until = until + :by;
update _mita_message set at = at + :by
