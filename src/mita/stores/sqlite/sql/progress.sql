-- In: seq, token, report.
update _mita_job set progress = :report
where seq = :seq and token = :token and state = {running}
