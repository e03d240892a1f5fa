-- reap_first_lease: the lease that ends first.
-- In: watermark (no lease ends before).  Out: now, the end of the lease or null.
select {now},
       (select j.lease_until from mita._job as j
        where j.state = {running} and j.lease_until >= %(watermark)s::bigint
        order by j.lease_until limit 1)
