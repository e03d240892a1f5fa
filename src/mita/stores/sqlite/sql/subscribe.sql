-- Add or renew a subscription.  In: id, queue, until.
insert into _mita_subscription (id, queue, until) values (:id, :queue, :until)
on conflict (id) do update set until = excluded.until
