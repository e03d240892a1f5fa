-- Messages after this one.  In: seq.  Out: seq, queue, count, events.
select seq, queue, count, events from _mita_message where seq > :seq order by seq limit 100
