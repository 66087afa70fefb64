import { z } from 'zod'

const count = (max: number) => z.coerce.number().int().min(0).max(max)
const positive = (max: number) => z.coerce.number().int().min(1).max(max)
const gigabytes = z.coerce.number().positive().max(1_000_000)

/** The environment variables of the quotas of an organisation; test keys are free, so their quotas are smaller. */
export const quotaVariables = {
  MAX_STORED_GB: gigabytes.default(100),
  MAX_STORED_FILES: positive(1_000_000_000).default(1_000_000),
  MAX_UNFINISHED_JOBS: positive(1_000_000).default(10_000),
  MAX_UNFINISHED_BATCHES: positive(10_000).default(100),
  TEST_MAX_STORED_GB: gigabytes.default(1),
  TEST_MAX_STORED_FILES: positive(1_000_000_000).default(10_000),
  TEST_MAX_UNFINISHED_JOBS: positive(1_000_000).default(1_000),
  TEST_MAX_UNFINISHED_BATCHES: positive(10_000).default(10),
  MAX_TEST_KEYS: count(1_000_000).default(100),
  TEST_KEY_RPM: count(10_000_000).default(300),
  TEST_KEY_TPM: count(1_000_000_000).default(1_000_000),
}

/**
 * What an organisation may use concurrently. Unfinished jobs are counted separately for delayed jobs and media jobs.
 */
type Quota = { storedBytes: number; storedFiles: number; unfinishedJobs: number; unfinishedBatches: number }

export type Quotas = {
  live: Quota
  test: Quota
  /** Maximum rate per minute of an organisation's test keys together, whatever their own limits; null = no limit. */
  testKey: { rpm: number | null; tpm: number | null }
  /** Active test keys of an organisation; null = no limit. */
  testKeys: number | null
}

export function quotasOf(v: { [Name in keyof typeof quotaVariables]: number }): Quotas {
  return {
    live: {
      storedBytes: v.MAX_STORED_GB * 1e9,
      storedFiles: v.MAX_STORED_FILES,
      unfinishedJobs: v.MAX_UNFINISHED_JOBS,
      unfinishedBatches: v.MAX_UNFINISHED_BATCHES,
    },
    test: {
      storedBytes: v.TEST_MAX_STORED_GB * 1e9,
      storedFiles: v.TEST_MAX_STORED_FILES,
      unfinishedJobs: v.TEST_MAX_UNFINISHED_JOBS,
      unfinishedBatches: v.TEST_MAX_UNFINISHED_BATCHES,
    },
    testKey: { rpm: v.TEST_KEY_RPM || null, tpm: v.TEST_KEY_TPM || null },
    testKeys: v.MAX_TEST_KEYS || null,
  }
}
