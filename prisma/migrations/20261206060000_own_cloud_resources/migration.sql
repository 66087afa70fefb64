-- AlterTable: the resource of an account at a cloud whose deployments have names of the account.
ALTER TABLE "provider_keys" ADD COLUMN "resource" JSONB;
