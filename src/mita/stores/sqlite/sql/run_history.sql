-- In: span, first (the start of the first minute or hour), queue and task (null: any).
select at, queue, task, {history_numbers} from _mita_history
where span = :span and at >= :first
  and (:queue is null or queue = :queue) and (:task is null or task = :task)
order by at, queue, task
