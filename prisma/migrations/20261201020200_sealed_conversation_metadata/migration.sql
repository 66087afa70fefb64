-- The metadata of a conversation, encrypted; `metadata` is empty then.
ALTER TABLE conversations ADD COLUMN sealed_metadata bytea;
