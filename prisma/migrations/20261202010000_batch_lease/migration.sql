-- The run of a batch that is under way, and until when it holds the batch: a second delivery of its queue entry waits.
ALTER TABLE batches ADD COLUMN lease_run text, ADD COLUMN lease_until timestamptz(3);
