-- claim_facts_plain: the part of `claim` for queues that have no holds and never had limits.
-- Nothing is taken from others.
-- In: what `claim` takes.  Out: the table `facts`.
facts as materialized (
  select clock.now, clock.behind, lines.next_due as next_time,
         lines.has_strays,
         %(ageing)s::bigint is not null and lines.ready > lines.queues as mixed,
         {has_limits} as waits
  from clock, (select {line_facts} from line) as lines
)
