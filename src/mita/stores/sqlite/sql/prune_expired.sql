-- Terminal jobs whose retention is over.  In: now, limit.
select seq from _mita_job indexed by _mita_expires
where expires is not null and expires between 0 and :now and typeof(expires) = 'integer'
  and state in {terminal}
order by expires, seq limit :limit
