-- CreateTable: what `operator apply` made, so that a file changes and deletes nothing else.
CREATE TABLE "applied_objects" (
    "owner" TEXT NOT NULL,
    "address" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "ref" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "applied_objects_pkey" PRIMARY KEY ("owner", "address")
);

CREATE UNIQUE INDEX "applied_objects_kind_ref_key" ON "applied_objects"("kind", "ref");

-- CreateTable: saved models with parameters, by version.
CREATE TABLE "presets" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "current" INTEGER NOT NULL,
    "latest" INTEGER NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "presets_pkey" PRIMARY KEY ("id")
);

CREATE UNIQUE INDEX "presets_organisation_id_name_key" ON "presets"("organisation_id", "name");

CREATE TABLE "preset_versions" (
    "preset_id" TEXT NOT NULL,
    "version" INTEGER NOT NULL,
    "config" JSONB NOT NULL,
    "created_by" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "preset_versions_pkey" PRIMARY KEY ("preset_id", "version")
);

ALTER TABLE "preset_versions" ADD CONSTRAINT "preset_versions_preset_id_fkey" FOREIGN KEY ("preset_id") REFERENCES "presets"("id") ON DELETE CASCADE ON UPDATE CASCADE;
