-- In: ids (a JSON list).  Out: the columns in the order of the fields of `Job`.
select {job_columns} from _mita_job where id in (select value from json_each(:ids))
