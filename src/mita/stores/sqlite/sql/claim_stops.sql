-- The queues that are paused, limited or have groups.
-- Out: name, paused, stored_limit, tat_us, has_groups.
select name, paused, stored_limit, tat_us, has_groups from _mita_queue
where paused is not null or stored_limit is not null or has_groups
