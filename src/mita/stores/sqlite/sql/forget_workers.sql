-- forget_workers: In: now.
delete from _mita_worker where until <= :now or typeof(until) <> 'integer'
