-- The flows of these steps look after them now, and not only at their next patrol.
-- In: seqs (a JSON list), now.  Out: the queues of the flows.
update _mita_job set due = :now, due_fixed = 0
where state = {queued} and due > :now and task in {flow_tasks} and id in (
  select substr(id, 1, length(id) - {step_suffix}) from _mita_job
  where seq in (select value from json_each(:seqs)) and length(id) > {longest_plain_id})
returning queue
