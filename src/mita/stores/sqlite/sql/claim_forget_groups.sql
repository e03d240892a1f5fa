-- Groups that are not ahead of their queue have no virtual time of their own.
-- In: queue, priority, virtual.
delete from _mita_share
where queue = :queue and priority = :priority and finished <= :virtual
