-- workers: the workers whose heartbeats have not expired.  In: nothing.  Out: the packed view.
select view from mita._worker where until > {now} order by id
