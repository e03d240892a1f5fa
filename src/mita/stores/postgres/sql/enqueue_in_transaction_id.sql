-- transaction: the number of the transaction that is open here.
select pg_current_xact_id()::text
