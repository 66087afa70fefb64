/** The name, type and meaning of a metric. `aggregator`: how the values of several web processes become one; default sum. */
export type Definition = {
  name: string
  type: 'counter' | 'gauge' | 'histogram'
  help: string
  aggregator?: 'sum' | 'max'
}

/** Upper bounds of durations in seconds, as OpenTelemetry recommends for calls to models. */
export const durationBounds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]

/** Upper bounds of the gateway's own time in seconds. */
export const overheadBounds = [
  0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
]

/** The prefix of OpenTelemetry's metrics of calls to models. */
const genAi = 'gen_ai_client_inference'

/** Metrics of web and worker processes. */
export const definitions = {
  requests: { name: 'headgate_requests_total', type: 'counter', help: 'Finished HTTP requests and realtime sessions.' },
  requestSeconds: {
    name: 'headgate_request_duration_seconds',
    type: 'histogram',
    help: 'Time from the request to the end of its response.',
  },
  overheadSeconds: {
    name: 'headgate_overhead_seconds',
    type: 'histogram',
    help: 'Duration of answered requests without the time waiting for the body, for providers and for retries.',
  },
  calls: {
    name: 'headgate_upstream_attempts_total',
    type: 'counter',
    help: 'Calls to providers, by their outcome.',
  },
  callSeconds: {
    name: `${genAi}_duration_seconds`,
    type: 'histogram',
    help: 'Duration of successful calls to providers.',
  },
  firstChunkSeconds: {
    name: `${genAi}_time_to_first_chunk_seconds`,
    type: 'histogram',
    help: 'Time from a streaming call to its first output.',
  },
  inputTokens: {
    name: `${genAi}_usage_input_tokens_total`,
    type: 'counter',
    help: 'Input tokens, including cached ones.',
  },
  outputTokens: {
    name: `${genAi}_usage_output_tokens_total`,
    type: 'counter',
    help: 'Output tokens, including reasoning.',
  },
  cacheReadTokens: {
    name: `${genAi}_usage_cache_read_input_tokens_total`,
    type: 'counter',
    help: 'Input tokens read from the cache of the provider.',
  },
  cacheWriteTokens: {
    name: `${genAi}_usage_cache_write_input_tokens_total`,
    type: 'counter',
    help: 'Input tokens written to the cache of the provider.',
  },
  reasoningTokens: {
    name: `${genAi}_usage_reasoning_output_tokens_total`,
    type: 'counter',
    help: 'Output tokens used for reasoning.',
  },
  spendUsd: { name: 'headgate_spend_usd_total', type: 'counter', help: 'USD charged to organisations.' },
  providerCostUsd: {
    name: 'headgate_provider_cost_usd_total',
    type: 'counter',
    help: 'The charged usage at the prices of the providers, in USD.',
  },
  statedCostUsd: {
    name: 'headgate_stated_cost_usd_total',
    type: 'counter',
    help: 'What providers that state the cost of a call stated, in USD.',
  },
  listedCostUsd: {
    name: 'headgate_listed_cost_usd_total',
    type: 'counter',
    help: 'The same calls at the prices of the catalog, in USD.',
  },
  waived: {
    name: 'headgate_waived_requests_total',
    type: 'counter',
    help: 'Requests that used tokens and were not charged, or not in full.',
  },
  cachedAnswers: {
    name: 'headgate_cached_answers_total',
    type: 'counter',
    help: 'Live requests that were answered from the response cache.',
  },
  guards: {
    name: 'headgate_guardrails_total',
    type: 'counter',
    help: 'What guardrails did: values that a detector masked, and requests and answers that it or a webhook decided on.',
  },
  jobsFinished: { name: 'headgate_jobs_finished_total', type: 'counter', help: 'Finished media and delayed jobs.' },
  deliveries: {
    name: 'headgate_webhook_deliveries_total',
    type: 'counter',
    help: 'Attempts to deliver a webhook, by their outcome.',
  },
  exportBatches: {
    name: 'headgate_log_export_batches_total',
    type: 'counter',
    help: 'Attempts to deliver a batch of exported logs, by stream and outcome.',
  },
  exportRows: {
    name: 'headgate_log_export_rows_total',
    type: 'counter',
    help: 'Rows of exported logs that were accepted, by stream.',
  },
  unknownNames: {
    name: 'headgate_unknown_names_total',
    type: 'counter',
    help: 'Fields, headers, betas and nested members of requests that the gateway does not know.',
  },
  scrapeErrors: {
    name: 'headgate_scrape_errors_total',
    type: 'counter',
    help: 'Stores that could not be read for a scrape.',
  },
  reservedUsd: {
    name: 'headgate_reserved_usd',
    type: 'gauge',
    help: 'USD reserved by running requests of the process.',
  },
  circuitOpen: {
    name: 'headgate_circuit_open',
    type: 'gauge',
    help: '1 while the circuit of a model at a provider is not closed, for those that were called.',
    aggregator: 'max',
  },
  clockSkew: {
    name: 'headgate_clock_skew_seconds',
    type: 'gauge',
    help: 'How far the clock of the process is from those of PostgreSQL and Redis, or from the nearer one.',
    aggregator: 'max',
  },
  housekeepingLastRun: {
    name: 'headgate_housekeeping_last_run_timestamp_seconds',
    type: 'gauge',
    help: 'When each task of housekeeping last completed on any worker, in Unix time.',
    aggregator: 'max',
  },
  housekeepingOverdue: {
    name: 'headgate_housekeeping_overdue',
    type: 'gauge',
    help: '1 for a task of housekeeping that no worker has completed for three of its intervals and two minutes.',
    aggregator: 'max',
  },
  openStreams: { name: 'headgate_open_streams', type: 'gauge', help: 'Streamed responses in progress.' },
  realtimeSessions: { name: 'headgate_realtime_sessions', type: 'gauge', help: 'Open realtime sessions.' },
} as const satisfies Record<string, Definition>

/** Metrics of worker processes only, read from PostgreSQL and Redis: every worker reports the same values. */
export const storeDefinitions = {
  jobs: { name: 'headgate_jobs', type: 'gauge', help: 'Unfinished jobs and batches.' },
  jobAge: { name: 'headgate_job_age_seconds', type: 'gauge', help: 'Age of the oldest unfinished job or batch.' },
  heldUsd: { name: 'headgate_held_usd', type: 'gauge', help: 'USD held for unfinished delayed jobs and batches.' },
  queueJobs: { name: 'headgate_queue_jobs', type: 'gauge', help: 'Entries of the queues.' },
  unbookedEvents: {
    name: 'headgate_unbooked_events',
    type: 'gauge',
    help: 'Usage events that are not in the ledger yet.',
  },
  refusedEvents: {
    name: 'headgate_refused_events',
    type: 'gauge',
    help: 'Usage events that PostgreSQL refused and an operator must look at.',
  },
  webhookBacklog: {
    name: 'headgate_webhook_backlog',
    type: 'gauge',
    help: 'Webhook deliveries that are due or wait for a retry.',
  },
  webhookLag: {
    name: 'headgate_webhook_lag_seconds',
    type: 'gauge',
    help: 'How long the oldest due webhook delivery has been due.',
  },
  exportLag: {
    name: 'headgate_log_export_lag_seconds',
    type: 'gauge',
    help: 'Age of what the enabled export of logs that is furthest behind has delivered, by stream.',
  },
  exportsFailing: {
    name: 'headgate_log_exports_failing',
    type: 'gauge',
    help: 'Exports of logs whose latest batch was not accepted, or that are paused for that.',
  },
} as const satisfies Record<string, Definition>
