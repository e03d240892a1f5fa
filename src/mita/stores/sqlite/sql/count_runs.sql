-- Add counts to minutes and hours.  In: {rows} of span, at, queue, task and the numbers.
insert into _mita_history (span, at, queue, task, {history_numbers})
select * from (values {rows}) where true
on conflict (span, at, queue, task) do update set {history_sums}
