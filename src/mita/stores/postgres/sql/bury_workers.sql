-- bury_workers: those that fell silent.
delete from mita._worker where until <= {now}
