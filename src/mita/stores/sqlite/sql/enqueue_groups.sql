-- These queues have jobs with groups from now on.  In: queues (a JSON list).
update _mita_queue set has_groups = 1
where not has_groups and name in (select value from json_each(:queues))
