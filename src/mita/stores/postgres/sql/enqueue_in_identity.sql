-- enqueue_in_identity: which database this connection is to, whatever its address. It is the same
-- on every connection to the database, until the server starts again.
-- In: nothing.  Out: the identity.
select {database_identity}
