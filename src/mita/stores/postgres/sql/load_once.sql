-- load_once: the value that a job has stored under a name.  In: id, name.  Out: the value or null.
select decode(j.memos ->> %(name)s, 'base64') from mita._job as j where j.id = %(id)s
