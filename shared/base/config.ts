import { resolve } from 'node:path'
import type { z } from 'zod'
import { devStack } from './dev-stack.ts'
import { type LoadLimits, loadLimits } from './load-limits.ts'
import { nanoFromUsd } from './money.ts'
import { type Quotas, quotasOf } from './quotas.ts'
import { dayMs } from './time.ts'
import { variables } from './variables.ts'

/** `webhookSecret` verifies what a provider calls back with, where it signs with a secret of the account. */
export type ProviderSettings = { apiKeys: string[]; baseUrl: string | null; webhookSecret: string | null }

export type Config = LoadLimits & {
  port: number
  host: string
  /** The address clients and providers know the gateway by. */
  publicUrl: string
  /** False where PUBLIC_URL is not set, and the address is a guess that holds on this machine alone. */
  publicUrlIsSet: boolean
  /** Whether providers can fetch files and report from outside: PUBLIC_URL is set, and https unless private URLs are allowed. */
  reachable: boolean
  databaseUrl: string
  redisUrl: string
  /** False accepts a self-signed certificate of a `rediss:` server, as hosted add-ons have. */
  redisTlsVerify: boolean
  webConcurrency: number
  workerConcurrency: number
  databasePool: number
  /** How long a connection may wait for its next request; longer than balancers let theirs wait. */
  keepAliveTimeoutMs: number
  /** From SIGTERM on: how long connections are still accepted, and after how long requests under way are stopped. */
  shutdown: { drainMs: number; graceMs: number }
  logLevel: string
  dataDir: string
  allowPrivateUrls: boolean
  modelCatalog: string | null
  /** Parts per million added to a provider's cost. */
  marginPpm: bigint
  embeddingsSurchargePpm: bigint
  upstream: {
    connectTimeoutMs: number
    firstByteTimeoutMs: number
    /** How long a stream may bring no token while another target could be asked instead. */
    firstTokenTimeoutMs: number
    idleTimeoutMs: number
    totalTimeoutMs: number
  }
  /** How often and how long a request is tried: calls in all, the time in which they begin, the pauses between them. */
  patience: { attempts: number; budgetMs: number; pauseMs: number }
  /** How long a call goes on for its usage after its client left. */
  readOnMs: number
  generationRetentionMonths: number
  /** Where uploads and results live: `file:<folder>` or `s3://bucket/prefix?endpoint=…&region=…&path_style=true`. */
  storageUrl: string
  /** Signs the addresses of stored files and of provider callbacks; null = the one kept in the database. */
  signingSecret: string | null
  /** Encrypt secrets in the database, the first one what is written from now on; none = they lie there in clear. */
  encryptionKeys: string[]
  resultRetentionDays: number
  /** How long a media job may take before it expires. */
  jobDeadlineMs: number
  /** How long the files of batches are kept. */
  fileRetentionDays: number
  /** Most calls of delayed jobs and batch lines in flight at one provider, of all workers together. */
  bulkConcurrency: number
  /** Parts per million off the synchronous price. */
  discountsPpm: { '1h': bigint; '6h': bigint; batch: bigint }
  /** How long delayed jobs of live keys wait at least. */
  holdBacksMs: { '1h': number; '6h': number }
  /** Bounds of one session, how many an organisation may have at a time, and the pages that may open them; null = any. */
  realtime: { mostMs: number; mostNano: number; mostSessions: number; origins: readonly string[] | null }
  quotas: Quotas
  /** How emails leave; without `smtpUrl` their links are logged at `debug`, and `outbox` shows them on a page (never in production). */
  email: { smtpUrl: string | null; from: string; outbox: boolean }
  /** Whether strangers may make an account, or only people who were invited. */
  signUp: 'open' | 'invitation'
  /** How many proxies before this process append to X-Forwarded-For. */
  trustedProxies: number
  /** An OpenID Connect provider to sign in with. */
  oidc: { issuer: string; clientId: string; clientSecret: string; name: string } | null
  /** Payments by card and ACH; `achHoldMs` is how long an ACH deposit cannot be spent. */
  stripe: { secretKey: string; webhookSecret: string; baseUrl: string | null; achHoldMs: number } | null
  /** By provider name in lower case: what `<PROVIDER>_API_KEY`, `_BASE_URL` and `_WEBHOOK_SECRET` say. */
  providers: ReadonlyMap<string, ProviderSettings>
  /** The names of all variables that are set, whether they mean anything here or not. */
  variables: readonly string[]
}

/** Every fault of the configuration at once, one line each. */
export class ConfigError extends Error {
  override name = 'ConfigError'
  readonly faults: string[]
  constructor(faults: string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

/**
 * The configuration from environment variables (contract §10). Where DATABASE_URL or REDIS_URL is not set, a development
 * stack running on the same DATA_DIR is used. Throws a ConfigError that lists every fault.
 */
export function loadConfig(env: Record<string, string | undefined> = process.env): Config {
  const dataDir = env.DATA_DIR || '.data'
  const present = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''))
  const parsed = variables.safeParse({ ...devStack(dataDir), ...present }, { reportInput: true })
  const providers = providerSettings(present as Record<string, string>)
  const faults = [
    ...(parsed.success ? [] : parsed.error.issues.map(describe)),
    ...together(present, ['OIDC_ISSUER', 'OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET']),
    ...together(present, ['STRIPE_SECRET_KEY', 'STRIPE_WEBHOOK_SECRET']),
    ...providers.faults,
  ]
  if (!parsed.success || faults.length > 0) throw new ConfigError(faults)
  const v = parsed.data
  const publicUrl = (v.PUBLIC_URL ?? `http://localhost:${v.PORT}`).replace(/\/+$/, '')
  return {
    port: v.PORT,
    host: v.HOST,
    publicUrl,
    publicUrlIsSet: v.PUBLIC_URL !== undefined,
    reachable: v.PUBLIC_URL !== undefined && (v.ALLOW_PRIVATE_URLS || v.PUBLIC_URL.startsWith('https:')),
    databaseUrl: v.DATABASE_URL,
    redisUrl: v.REDIS_URL,
    redisTlsVerify: v.REDIS_TLS_VERIFY,
    webConcurrency: v.WEB_CONCURRENCY,
    workerConcurrency: v.WORKER_CONCURRENCY,
    databasePool: v.DATABASE_POOL,
    keepAliveTimeoutMs: v.KEEP_ALIVE_TIMEOUT_MS,
    shutdown: { drainMs: Math.min(v.SHUTDOWN_DRAIN_MS, v.SHUTDOWN_GRACE_MS), graceMs: v.SHUTDOWN_GRACE_MS },
    logLevel: v.LOG_LEVEL,
    dataDir: v.DATA_DIR,
    allowPrivateUrls: v.ALLOW_PRIVATE_URLS,
    modelCatalog: v.MODEL_CATALOG ?? null,
    marginPpm: v.SERVICE_MARGIN_PERCENT,
    embeddingsSurchargePpm: v.EMBEDDINGS_SURCHARGE_PERCENT,
    upstream: {
      connectTimeoutMs: v.UPSTREAM_CONNECT_TIMEOUT_MS,
      firstByteTimeoutMs: v.UPSTREAM_FIRST_BYTE_TIMEOUT_MS,
      firstTokenTimeoutMs: v.UPSTREAM_FIRST_TOKEN_TIMEOUT_MS,
      idleTimeoutMs: v.UPSTREAM_IDLE_TIMEOUT_MS,
      totalTimeoutMs: v.UPSTREAM_TOTAL_TIMEOUT_MS,
    },
    patience: {
      attempts: v.UPSTREAM_MAX_ATTEMPTS,
      budgetMs: v.UPSTREAM_RETRY_BUDGET_MS,
      pauseMs: v.UPSTREAM_MAX_PAUSE_MS,
    },
    readOnMs: v.UPSTREAM_READ_ON_MS,
    generationRetentionMonths: v.GENERATION_RETENTION_MONTHS,
    storageUrl: v.STORAGE_URL ?? `file:${resolve(dataDir, 'storage')}`,
    signingSecret: v.SIGNING_SECRET ?? null,
    encryptionKeys: [...(v.ENCRYPTION_KEY ?? []), ...(v.SIGNING_SECRET ? [v.SIGNING_SECRET] : [])],
    resultRetentionDays: v.RESULT_RETENTION_DAYS,
    jobDeadlineMs: v.JOB_DEADLINE_MINUTES * 60_000,
    fileRetentionDays: v.FILE_RETENTION_DAYS,
    bulkConcurrency: v.BULK_CONCURRENCY,
    discountsPpm: { '1h': v.JOB_DISCOUNT_1H_PERCENT, '6h': v.JOB_DISCOUNT_6H_PERCENT, batch: v.BATCH_DISCOUNT_PERCENT },
    holdBacksMs: { '1h': v.JOB_HOLD_BACK_1H_SECONDS * 1_000, '6h': v.JOB_HOLD_BACK_6H_SECONDS * 1_000 },
    realtime: {
      mostMs: v.REALTIME_MAX_MINUTES * 60_000,
      mostNano: Number(nanoFromUsd(v.REALTIME_MAX_USD)),
      mostSessions: v.REALTIME_MAX_SESSIONS,
      origins: v.REALTIME_ORIGINS ?? null,
    },
    quotas: quotasOf(v),
    ...peopleSettings(v, publicUrl),
    ...loadLimits(v),
    providers: providers.settings,
    variables: Object.keys(present),
  }
}

/** What accounts, emails and payments need. */
function peopleSettings(v: z.output<typeof variables>, publicUrl: string) {
  const { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret } = v
  const { STRIPE_SECRET_KEY: secretKey, STRIPE_WEBHOOK_SECRET: webhookSecret, STRIPE_BASE_URL: stripeUrl } = v
  return {
    email: {
      smtpUrl: v.SMTP_URL ?? null,
      from: v.EMAIL_FROM ?? `Headgate <no-reply@${new URL(publicUrl).hostname}>`,
      outbox: v.DEV_OUTBOX,
    },
    signUp: v.SIGN_UP,
    trustedProxies: v.TRUSTED_PROXIES,
    oidc: issuer && clientId && clientSecret ? { issuer, clientId, clientSecret, name: v.OIDC_NAME } : null,
    stripe:
      secretKey && webhookSecret
        ? { secretKey, webhookSecret, baseUrl: stripeUrl ?? null, achHoldMs: v.ACH_HOLD_DAYS * dayMs }
        : null,
  }
}

/** Faults of variables that mean something only together. */
function together(present: Record<string, string | undefined>, names: string[]): string[] {
  const missing = names.filter(name => present[name] === undefined)
  return missing.length === 0 || missing.length === names.length
    ? []
    : missing.map(name => `${name} is not set, but ${names.filter(other => !missing.includes(other)).join(', ')} is`)
}

/** Prints every fault of the configuration on its own line. */
export function printFaults({ faults }: ConfigError): void {
  for (const fault of faults) console.error(`configuration: ${fault}`)
}

const requiredNode = 24

/** Why a version of Node cannot run this; null = it can. */
export function nodeFault(version: string): string | null {
  if (Number.parseInt(version, 10) >= requiredNode) return null
  return `needs Node ${requiredNode}, and this is ${version}: use the npm scripts, or node_modules/.bin/node`
}

/** Loads the configuration or prints every fault on its own line and exits with 1. For the entry points only. */
export function configOrExit(): Config {
  const fault = nodeFault(process.versions.node)
  if (fault) {
    console.error(`headgate: ${fault}`)
    process.exit(1)
  }
  try {
    return loadConfig()
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    printFaults(error)
    process.exit(1)
  }
}

function describe(issue: z.core.$ZodIssue): string {
  const name = String(issue.path[0])
  const missing = issue.code === 'invalid_type' && issue.input === undefined
  return missing ? `${name} is not set (or start \`npm run dev\` first)` : `${name}: ${issue.message}`
}

function providerSettings(env: Record<string, string>): { settings: Map<string, ProviderSettings>; faults: string[] } {
  const settings = new Map<string, ProviderSettings>()
  const faults: string[] = []
  for (const [variable, value] of Object.entries(env)) {
    const [, name, what] = /^([A-Z][A-Z0-9_]*?)_(API_KEY|BASE_URL|WEBHOOK_SECRET)$/.exec(variable) ?? []
    if (!name || name === 'STRIPE') continue
    const provider = settings.get(name.toLowerCase()) ?? { apiKeys: [], baseUrl: null, webhookSecret: null }
    settings.set(name.toLowerCase(), provider)
    if (what === 'WEBHOOK_SECRET') provider.webhookSecret = value
    else if (what === 'API_KEY') {
      provider.apiKeys = value
        .split(',')
        .map(key => key.trim())
        .filter(Boolean)
      // A key with a line break or a non-ASCII character cannot be a header: say so now, without showing it.
      if (provider.apiKeys.some(key => !/^[\x21-\x7e]+$/.test(key)))
        faults.push(`${variable}: has characters that no API key has`)
    } else if (URL.canParse(value) && /^https?:$/.test(new URL(value).protocol)) {
      provider.baseUrl = value.replace(/\/+$/, '')
    } else {
      faults.push(`${variable}: must be a URL starting with http:// or https://`)
    }
  }
  return { settings, faults }
}
