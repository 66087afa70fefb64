-- The price at which a provider's own batch API runs a batch: the catalog's may change until its end.
ALTER TABLE batches ADD COLUMN price jsonb;
