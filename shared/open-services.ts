import type { Config } from './base/config.ts'
import { startLeaseMs } from './base/deadlines.ts'
import { BatchJournal } from './batches/batch-journal.ts'
import type { BatchServices } from './batches/batch-services.ts'
import { Batches } from './batches/batches.ts'
import { ContentLog } from './content-log/content-log.ts'
import type { ContentLogServices } from './content-log/content-log-services.ts'
import { Contents } from './content-log/contents.ts'
import { DelayedJobs } from './delayed/delayed-jobs.ts'
import type { DelayedServices } from './delayed/delayed-services.ts'
import { StatedCosts } from './engine/stated-costs.ts'
import { UnknownNames } from './engine/unknown-names.ts'
import { Feedback } from './feedback/feedback.ts'
import { LearnedQualities } from './feedback/learned-qualities.ts'
import { Files } from './files/files.ts'
import type { Logger } from './io/log.ts'
import { Jobs } from './jobs/jobs.ts'
import type { LogExportServices } from './log-exports/export-services.ts'
import { LogExports } from './log-exports/log-exports.ts'
import { recordLines } from './metrics/record-lines.ts'
import { TopUps } from './payments/top-ups.ts'
import { closePlatform, openPlatform, type PlatformOptions } from './platform.ts'
import { BatchWakes } from './queues/batch-wakes.ts'
import { CrashSuspectLimiter } from './queues/crash-suspect-limiter.ts'
import { PollSchedule } from './queues/poll-schedule.ts'
import { Tasks } from './queues/tasks.ts'
import { Payloads } from './responses/payloads.ts'
import { ResponseEvents } from './responses/response-events.ts'
import { ResponseSettingsReader } from './responses/response-settings.ts'
import { Conversations } from './responses/stored-conversations.ts'
import { StoredResponses } from './responses/stored-responses.ts'
import { OutputHistory } from './routing/output-history.ts'
import { StickySessions } from './routing/sticky-sessions.ts'
import { WebhookEndpoints } from './webhooks/endpoints.ts'
import { GuardCalls } from './webhooks/guard-calls.ts'
import { Webhooks } from './webhooks/webhooks.ts'

/** All rooms of a process. A function names the rooms that it needs, not this. */
export type Services = BatchServices &
  DelayedServices &
  ContentLogServices &
  LogExportServices & {
    topUps: TopUps
    feedback: Feedback
    unknownNames: UnknownNames
    /** Settles open reservations and closes every connection. Idempotent. */
    close(): Promise<void>
  }

/**
 * Opens every room once, in the order of the layers. Throws a ConfigError if the model catalog is invalid, and an Error if
 * Redis cannot be reached.
 */
export async function openServices(config: Config, log: Logger, options: PlatformOptions = {}): Promise<Services> {
  const platform = await openPlatform(config, log, options)
  const { wallets, blobs, clock, clockSkew, db, metrics, monotonic } = platform
  const { budgets, queues, queueRedis, rawPool, redis, sealer, urlPolicy } = platform
  const unknownNames = new UnknownNames({ redis, clock, log }).start()
  const statedCosts = new StatedCosts({ redis, clock, log, metrics: metrics ?? undefined }).start()
  const learnedQualities = new LearnedQualities({ db, clock, monotonic, log, isOn: config.routingLearning })
  const files = new Files({ db, blobs, clock, quotas: config.quotas })
  const payloads = new Payloads({ files, blobs, sealer })
  const contents = new Contents({ db, files, blobs, sealer })
  const contentLog = new ContentLog({ contents, db, clock, log })
  const webhooks = new Webhooks({ db, queue: queues.webhooks, clock })
  const guardCalls = new GuardCalls({ db, sealer, clock, monotonic, urlPolicy, budgets })

  const close = async () => {
    learnedQualities.close()
    await Promise.all([contentLog.flush(), unknownNames.close(), statedCosts.close(), guardCalls.close()])
    await closePlatform(platform)
  }
  let closing: Promise<void> | null = null
  return {
    ...platform,
    topUps: new TopUps({ db, wallets, clock, log, config }),
    feedback: new Feedback(db, clock),
    unknownNames,
    files,
    contents,
    contentLog,
    webhooks,
    logExports: new LogExports({ db, sealer, clock, urlPolicy }),
    webhookEndpoints: new WebhookEndpoints({ db, sealer, clock, urlPolicy }),
    stickySessions: new StickySessions(redis),
    outputHistory: new OutputHistory(),
    learnedQualities,
    statedCosts,
    guardCalls,
    jobs: new Jobs({
      db,
      webhooks,
      clock,
      startLeaseMs: startLeaseMs(config),
      quotas: config.quotas,
      marginPpm: config.marginPpm,
    }),
    mediaTasks: new Tasks(queues.media, queueRedis, clockSkew),
    pollSchedule: new PollSchedule(redis),
    crashSuspects: new CrashSuspectLimiter(),
    responseSettings: new ResponseSettingsReader({ db, monotonic, maxDays: config.responseRetentionDays }),
    storedResponses: new StoredResponses({ db, clock, payloads }),
    responseEvents: new ResponseEvents(redis, platform.completionSignals),
    conversations: new Conversations({ db, clock, payloads }),
    delayedJobs: new DelayedJobs({ db, clock }),
    delayedTasks: new Tasks(queues.async, queueRedis, clockSkew),
    batches: new Batches({ db, webhooks, clock, quotas: config.quotas }),
    batchJournal: new BatchJournal({ db, rawPool, clock, onBooked: metrics && recordLines(metrics, config) }),
    batchWakes: new BatchWakes(queues.batches),
    close: () => (closing ??= close()),
  }
}
