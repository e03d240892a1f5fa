-- In: id.  Out: {timeline_columns}, the oldest line first.
select {timeline_columns} from _mita_event
where job = (select seq from _mita_job where id = :id) order by n
