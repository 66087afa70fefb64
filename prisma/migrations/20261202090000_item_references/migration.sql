-- Items of stored responses and conversations are found by their ids, since requests may refer to them.
ALTER TABLE stored_responses ADD COLUMN item_ids text[];
CREATE INDEX IF NOT EXISTS stored_responses_item_ids_idx ON stored_responses USING gin (item_ids);
CREATE INDEX IF NOT EXISTS conversation_items_organisation_id_id_idx ON conversation_items (organisation_id, id);
