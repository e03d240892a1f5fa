-- beat_prune: delete workers whose heartbeats have expired. It does not wait for a row that is
-- being written: the writer may have been stopped.
-- In: nothing.  Out: no row.
delete from mita._worker where id in (
  select w.id from mita._worker as w where w.until <= {now} for update skip locked)
