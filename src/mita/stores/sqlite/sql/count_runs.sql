-- Add counts to minutes and hours.  In: rows, each a list of span, at, queue, task and the numbers.
insert into _mita_history (span, at, queue, task, {history_numbers})
select {history_given} from json_each(:rows) where true
on conflict (span, at, queue, task) do update set {history_sums}
