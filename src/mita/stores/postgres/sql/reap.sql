-- reap: take over jobs whose lease has ended, the earliest first, under a new token.
-- In: watermark (no lease ends before), limit, lease, worker.  Out: the fields of a Claim.
with clock as materialized (select {now} as now),
expired as materialized (
  select {claim_columns}, j.worker
  from mita._job as j
  where j.state = {running} and j.lease_until <= (select now from clock)
    and j.lease_until >= %(watermark)s::bigint
  order by j.lease_until, j.seq limit %(limit)s::bigint
  for update skip locked
),
taken as (
  update mita._job as j
  set token = greatest(j.token + 1, clock.now), worker = %(worker)s,
      lease_until = clock.now + %(lease)s::bigint
  from expired as e, clock where j.id = e.id
)
select {reaped} from expired as e, clock
