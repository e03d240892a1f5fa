-- enqueue_in_check: whether jobs can be written on this connection. It reads the catalogue only, so
-- it cannot make the user's transaction fail.
-- In: namespace.
-- Out: the database, the user, whether our tables exist, whether this user may write to them,
-- whether the transaction is read-only, and the identity of the database.
select current_database()::text, current_user::text, count(*) > 0,
       coalesce(bool_and(
         has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'insert')), false),
       current_setting('transaction_read_only') = 'on', {database_identity}
from pg_catalog.pg_class as c join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = %(namespace)s::text and c.relname = '_job'
