-- The version of the schema.
select value from _mita_meta where name = 'schema'
