-- unsynced: the commit of this transaction need not wait for the disk. What a crash of the server may take away is for the asker to say.
select set_config('synchronous_commit', 'off', true)
