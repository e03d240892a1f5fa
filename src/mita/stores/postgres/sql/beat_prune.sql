-- forget_workers: those that fell silent. One that is being written is not waited for: its writer may have been stopped.
delete from mita._worker where id in (select w.id from mita._worker as w where w.until <= {now} for update skip locked)
