-- wake: blocked jobs go back to their places in the queue.  In: seqs (a JSON list).
update _mita_job set state = 'queued' where seq in (select value from json_each(:seqs)) and state = 'blocked'
