-- What the caller of a failed request was told. Nullable: processes of the previous release write rows without them.
ALTER TABLE "generations"
  ADD COLUMN "error_message" TEXT,
  ADD COLUMN "error_param" TEXT;
