-- key_behind: a job was returned to the queue, perhaps with a due time before a watermark.
-- In: nothing.  Out: a number that is not used.
select nextval('mita._behind')
