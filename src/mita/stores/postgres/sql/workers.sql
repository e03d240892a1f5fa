-- workers: those that are alive.
select view from mita._worker where until > {now} order by id
