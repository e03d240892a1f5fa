-- A count of events in early schemas. Since 0003 the timeline itself counts.
alter table mita._job drop column if exists happened;
