-- Jobs as ONE JSON text.  In: seqs (a JSON list).  Out: the rows of `codec.CLAIM_ROW`.
select json_group_array({claim_row}) from _mita_job
where seq in (select value from json_each(:seqs))
