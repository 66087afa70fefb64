-- The run that imports the results of a media job, and until when it holds the job: a second delivery of its entry waits.
ALTER TABLE jobs ADD COLUMN lease_run text, ADD COLUMN lease_until timestamptz(3);
