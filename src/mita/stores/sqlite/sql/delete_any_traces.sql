-- Whether jobs between these two have timelines, values of `job.once`, or tags.
-- In: first, last.  Out: 1 or 0 for each.
select exists (select 1 from _mita_event where job between :first and :last),
       exists (select 1 from _mita_once_value where job between :first and :last),
       exists (select 1 from _mita_tag where job between :first and :last)
