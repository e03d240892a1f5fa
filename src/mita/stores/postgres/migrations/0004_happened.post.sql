-- A count of events that schemas of early days have: the timeline itself counts since 0003.
alter table mita._job drop column if exists happened;
