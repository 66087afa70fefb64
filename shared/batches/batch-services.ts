import type { JobServices } from '../jobs/job-services.ts'
import type { BatchWakes } from '../queues/batch-wakes.ts'
import type { ResponseServices } from '../responses/response-services.ts'
import type { BatchJournal } from './batch-journal.ts'
import type { Batches } from './batches.ts'

/** What batches need. */
export type BatchServices = JobServices &
  ResponseServices & {
    batches: Batches
    batchJournal: BatchJournal
    batchWakes: BatchWakes
  }
