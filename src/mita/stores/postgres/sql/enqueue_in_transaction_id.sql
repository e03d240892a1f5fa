-- enqueue_in_transaction_id: In: nothing.  Out: the id of the open transaction.
select pg_current_xact_id()::text
