-- Blocked jobs return to their queue.  In: seqs (a JSON list).
update _mita_job set state = {to_wake}, blocked_at = null
where seq in (select value from json_each(:seqs)) and state in {from_wake}
