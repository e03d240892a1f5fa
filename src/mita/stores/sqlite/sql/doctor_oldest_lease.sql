-- The end of the lease that ends first.
select min(lease_until) from _mita_job indexed by _mita_leased where state = {running}
