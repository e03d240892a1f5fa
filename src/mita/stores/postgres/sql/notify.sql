-- notify: ring.  In: channel, topics.
select pg_notify(%(channel)s, %(topics)s)
