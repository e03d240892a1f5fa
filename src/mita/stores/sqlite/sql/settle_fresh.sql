-- Which jobs are still claimed, with nothing asked of them meanwhile.
-- In: seqs (a JSON list).  Out: two texts, JSON lists of their seqs and of their tokens.
select json_group_array(seq), json_group_array(token) from _mita_job
where seq in (select value from json_each(:seqs)) and state = {running} and asked is null
