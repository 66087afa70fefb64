import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { z } from 'zod'
import { readDevStack } from './dev-stack.ts'
import { issueText } from './issue-text.ts'
import { type LoadLimits, loadLimits } from './load-limits.ts'
import { nanoFromUsd } from './money.ts'
import { findUnsafeSettings } from './production-safety.ts'
import { directConnection, isProxyUrl, type Proxies, preferLowerCase } from './proxies.ts'
import { type Quotas, quotasOf } from './quotas.ts'
import { type RedisSettings, redisSettings } from './redis-settings.ts'
import { findRetentionFaults, type RetentionPeriods, retentionOf } from './retention-config.ts'
import { type MetricsAddress, type TracingConfig, telemetryOf } from './telemetry-config.ts'
import { dayMs } from './time.ts'
import {
  type CloudVariable,
  isCloudVariable,
  providerVariable,
  readVariableFiles,
  splitList,
} from './variable-files.ts'
import { requireTogether, variables } from './variables.ts'

/**
 * The variables of a provider, or of one of its regions. `webhookSecret` verifies its webhooks, for providers that sign with an
 * account-wide secret. `cloud`: values that are checked once the provider is known (`shared/catalog/regions.ts`), as other programs
 * have variables of such names.
 */
export type ProviderSettings = {
  apiKeys: string[]
  /** The variable of the API keys. */
  apiKeyOrigin: string
  baseUrl: string | null
  webhookSecret: string | null
  /** The proxy of its requests instead of the general one: a URL, or `direct`. */
  proxy: string | null
  cloud: Partial<Record<CloudVariable, string>>
}

type Parts = LoadLimits & RedisSettings & RetentionPeriods

export type Config = Parts & {
  port: number
  host: string
  /** The base URL under which clients and providers reach the gateway. */
  publicUrl: string
  /** False if PUBLIC_URL is not set; `publicUrl` is then a default that is valid on this machine only. */
  publicUrlIsSet: boolean
  /** Where people reach the operator: an email address or a URL; null = not stated. */
  supportContact: string | null
  /**
   * Whether providers can fetch files and call webhooks from outside: PUBLIC_URL is set, and is https unless private
   * URLs are allowed.
   */
  reachable: boolean
  databaseUrl: string
  /** Null = no metrics are collected. */
  metrics: MetricsAddress | null
  /** Null = no traces are sent. */
  tracing: TracingConfig | null
  webConcurrency: number
  workerConcurrency: number
  databasePool: number
  /** True if DATABASE_URL is the address of a pooler in transaction mode. */
  databasePooler: boolean
  /** Idle timeout of client connections; must exceed the idle timeout of load balancers. */
  keepAliveTimeoutMs: number
  /** Measured from SIGTERM: how long new connections are accepted, and when requests still running are aborted. */
  shutdown: { drainMs: number; graceMs: number }
  logLevel: string
  dataDir: string
  allowPrivateUrls: boolean
  modelCatalog: string | null
  /** Parts per million added to a provider's cost. */
  marginPpm: bigint
  embeddingsSurchargePpm: bigint
  /** The fee for calls with own provider keys, in parts per million of the provider's price. */
  ownKeyFeePpm: bigint
  upstream: {
    connectTimeoutMs: number
    firstByteTimeoutMs: number
    /** How long a stream may produce no token while failover to another target is possible. */
    firstTokenTimeoutMs: number
    idleTimeoutMs: number
    totalTimeoutMs: number
  }
  /**
   * Retry budget: maximum number of calls, the time within which they must start, and the maximum pause between them.
   */
  retry: { attempts: number; budgetMs: number; pauseMs: number }
  /** How long a call continues after its client disconnects, so that the provider can still report usage. */
  readOnMs: number
  /** Whether feedback moves what `auto` chooses. */
  routingLearning: boolean
  /** Whether the gateway marks what providers are to cache, in conversations whose clients mark nothing. */
  cacheMarks: boolean
  /** The most that cached responses take in Redis, in all and for one organisation. */
  responseCache: { maxBytes: number; maxOrganisationBytes: number }
  /** Whether sound is converted for providers that do not take its format. */
  convertMedia: boolean
  /** Whether providers of the same format receive fields of Messages and Responses requests that the gateway does not know. */
  passUnknownFields: boolean
  /** Storage of uploads and results: `file:<folder>` or `s3://bucket/prefix?endpoint=…&region=…&path_style=true`. */
  storageUrl: string
  /**
   * Secrets of URLs, cookies and reasoning state: the first one signs, all verify; none = use the secret stored in the database.
   */
  signingSecrets: string[]
  /**
   * Keys that encrypt secrets in the database; new values use the first one; none = secrets are stored in plain text.
   */
  encryptionKeys: string[]
  /** How long a media job may run before it expires. */
  jobDeadlineMs: number
  /** Maximum calls of delayed jobs and batch lines in flight per provider, across all workers. */
  bulkConcurrency: number
  /** Discount on the synchronous price, in parts per million. */
  discountsPpm: { '1h': bigint; '6h': bigint; batch: bigint }
  /** Minimum delay of delayed jobs created with live keys. */
  minDelaysMs: { '1h': number; '6h': number }
  /**
   * Limits of one session, the maximum number of concurrent sessions per organisation, and the allowed page origins;
   * null = any.
   */
  realtime: {
    maxMs: number
    maxNano: number
    maxSessions: number
    maxClientSecrets: number
    origins: readonly string[] | null
  }
  /** Maximum concurrent WebSocket connections at /v1/responses per organisation; 0 = none are accepted. */
  responses: { maxConnections: number }
  /** By how much the requests of a key may cost more than their reservations within an hour, before it is blocked. */
  maxExcessNano: number
  quotas: Quotas
  /**
   * Email delivery. Without `smtpUrl`, links are logged at `debug`; `outbox` shows sent emails on a page (never in
   * production).
   */
  email: { smtpUrl: string | null; from: string; outbox: boolean }
  /** Whether anyone may sign up, or only people with an invitation. */
  signUp: 'open' | 'invitation'
  /** Number of trusted proxies in front of this process that append to X-Forwarded-For. */
  trustedProxies: number
  /** An OpenID Connect provider to sign in with. */
  oidc: { issuer: string; clientId: string; clientSecret: string; name: string } | null
  /** What statements name as the operator, line by line, and a font file for characters that DejaVu Sans lacks. */
  statement: { issuer: string[]; font: string | null }
  /** Card and ACH payments; `achHoldMs` is how long an ACH deposit cannot be spent. */
  stripe: { secretKey: string; webhookSecret: string; baseUrl: string | null; achHoldMs: number } | null
  /** By lower-case provider name, or `provider_region`: the values of `<PROVIDER>_API_KEY`, `_BASE_URL` and others. */
  providers: ReadonlyMap<string, ProviderSettings>
  proxies: Proxies
  /** The names of all variables that are set, whether or not the gateway uses them. */
  variables: readonly string[]
  /** The value of a variable that a file of the operator refers to. */
  readVariable: (name: string) => string | undefined
}

/** All configuration errors at once, one line each. */
export class ConfigError extends Error {
  override name = 'ConfigError'
  readonly faults: string[]
  constructor(faults: string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

/**
 * Reads the configuration from environment variables (docs/configuration.md) and from the files that `<NAME>_FILE` variables name. If DATABASE_URL or REDIS_URL is not set, a
 * development stack running on the same DATA_DIR is used. Throws a ConfigError that lists every fault.
 */
export function loadConfig(env: Record<string, string | undefined> = process.env): Config {
  const { env: given, faults: fileFaults } = readVariableFiles(env)
  const present = preferLowerCase(given)
  const dataDir = present.DATA_DIR ?? '.data'
  const parsed = variables.safeParse({ ...readDevStack(dataDir), ...present }, { reportInput: true, error: issueText })
  const providers = providerSettings(present)
  const faults = [
    ...fileFaults,
    ...(parsed.success ? findRetentionFaults(parsed.data) : parsed.error.issues.map(describe)),
    ...requireTogether(present, ['OIDC_ISSUER', 'OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET']),
    ...requireTogether(present, ['REDIS_TLS_CERT', 'REDIS_TLS_KEY']),
    ...requireTogether(present, ['STRIPE_SECRET_KEY', 'STRIPE_WEBHOOK_SECRET']),
    ...providers.faults,
  ]
  if (!parsed.success) throw new ConfigError(faults)
  const v = parsed.data
  const publicUrl = (v.PUBLIC_URL ?? `http://localhost:${v.PORT}`).replace(/\/+$/, '')
  faults.push(...findUnsafeSettings(v, publicUrl))
  if (v.STATEMENT_FONT !== undefined && !existsSync(v.STATEMENT_FONT))
    faults.push('STATEMENT_FONT: there is no such file')
  if (faults.length > 0) throw new ConfigError(faults)
  return {
    ...processSettings(v, publicUrl),
    ...callSettings(v),
    ...workSettings(v),
    ...redisSettings(v),
    ...telemetryOf(v),
    ...retentionOf(v),
    ...accountSettings(v, publicUrl),
    ...loadLimits(v),
    providers: providers.settings,
    variables: Object.keys(present),
    readVariable: name => present[name],
  }
}

/** Settings of the process: its address, stores, concurrency, secrets and proxies. */
function processSettings(v: z.output<typeof variables>, publicUrl: string) {
  return {
    port: v.PORT,
    host: v.HOST,
    publicUrl,
    publicUrlIsSet: v.PUBLIC_URL !== undefined,
    supportContact: v.SUPPORT_CONTACT ?? null,
    reachable: v.PUBLIC_URL !== undefined && (v.ALLOW_PRIVATE_URLS || v.PUBLIC_URL.startsWith('https:')),
    databaseUrl: v.DATABASE_URL,
    webConcurrency: v.WEB_CONCURRENCY,
    workerConcurrency: v.WORKER_CONCURRENCY,
    databasePool: v.DATABASE_POOL,
    databasePooler: v.DATABASE_POOLER,
    keepAliveTimeoutMs: v.KEEP_ALIVE_TIMEOUT_MS,
    shutdown: { drainMs: Math.min(v.SHUTDOWN_DRAIN_MS, v.SHUTDOWN_GRACE_MS), graceMs: v.SHUTDOWN_GRACE_MS },
    logLevel: v.LOG_LEVEL,
    dataDir: v.DATA_DIR,
    allowPrivateUrls: v.ALLOW_PRIVATE_URLS,
    modelCatalog: v.MODEL_CATALOG ?? null,
    storageUrl: v.STORAGE_URL ?? `file:${resolve(v.DATA_DIR, 'storage')}`,
    signingSecrets: v.SIGNING_SECRET ?? [],
    encryptionKeys: [...(v.ENCRYPTION_KEY ?? []), ...(v.SIGNING_SECRET ?? [])],
    proxies: { http: v.HTTP_PROXY ?? null, https: v.HTTPS_PROXY ?? null, noProxy: v.NO_PROXY },
  }
}

/** Settings of calls to providers: prices, timeouts, retries, caching and limits of sessions. */
function callSettings(v: z.output<typeof variables>) {
  return {
    marginPpm: v.SERVICE_MARGIN_PERCENT,
    embeddingsSurchargePpm: v.EMBEDDINGS_SURCHARGE_PERCENT,
    ownKeyFeePpm: v.OWN_KEY_FEE_PERCENT,
    upstream: {
      connectTimeoutMs: v.UPSTREAM_CONNECT_TIMEOUT_MS,
      firstByteTimeoutMs: v.UPSTREAM_FIRST_BYTE_TIMEOUT_MS,
      firstTokenTimeoutMs: v.UPSTREAM_FIRST_TOKEN_TIMEOUT_MS,
      idleTimeoutMs: v.UPSTREAM_IDLE_TIMEOUT_MS,
      totalTimeoutMs: v.UPSTREAM_TOTAL_TIMEOUT_MS,
    },
    retry: {
      attempts: v.UPSTREAM_MAX_ATTEMPTS,
      budgetMs: v.UPSTREAM_RETRY_BUDGET_MS,
      pauseMs: v.UPSTREAM_MAX_PAUSE_MS,
    },
    readOnMs: v.UPSTREAM_READ_ON_MS,
    routingLearning: v.ROUTING_LEARNING,
    cacheMarks: v.CACHE_MARKS,
    responseCache: {
      maxBytes: v.RESPONSE_CACHE_MB * 1024 * 1024,
      maxOrganisationBytes: v.RESPONSE_CACHE_ORGANISATION_MB * 1024 * 1024,
    },
    convertMedia: v.CONVERT_MEDIA,
    passUnknownFields: v.PASS_UNKNOWN_FIELDS,
    realtime: {
      maxMs: v.REALTIME_MAX_MINUTES * 60_000,
      maxNano: Number(nanoFromUsd(v.REALTIME_MAX_USD)),
      maxSessions: v.REALTIME_MAX_SESSIONS,
      maxClientSecrets: v.REALTIME_MAX_CLIENT_SECRETS,
      origins: v.REALTIME_ORIGINS ?? null,
    },
    responses: { maxConnections: v.RESPONSES_MAX_CONNECTIONS },
    maxExcessNano: Number(nanoFromUsd(v.MAX_EXCESS_USD)),
  }
}

/** Settings of slow work: deadlines, discounts and quotas. */
function workSettings(v: z.output<typeof variables>) {
  return {
    jobDeadlineMs: v.JOB_DEADLINE_MINUTES * 60_000,
    bulkConcurrency: v.BULK_CONCURRENCY,
    discountsPpm: { '1h': v.JOB_DISCOUNT_1H_PERCENT, '6h': v.JOB_DISCOUNT_6H_PERCENT, batch: v.BATCH_DISCOUNT_PERCENT },
    minDelaysMs: { '1h': v.JOB_HOLD_BACK_1H_SECONDS * 1_000, '6h': v.JOB_HOLD_BACK_6H_SECONDS * 1_000 },
    quotas: quotasOf(v),
  }
}

const maxIssuerLines = 8

/** Settings of accounts, emails and payments. */
function accountSettings(v: z.output<typeof variables>, publicUrl: string) {
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
    statement: {
      // In many places that hold variables, a value is one line: "\\n" is then written out.
      issuer: (v.STATEMENT_ISSUER ?? '')
        .split(/\n|\\n/)
        .flatMap(line => line.trim() || [])
        .slice(0, maxIssuerLines),
      font: v.STATEMENT_FONT ?? null,
    },
    oidc: issuer && clientId && clientSecret ? { issuer, clientId, clientSecret, name: v.OIDC_NAME } : null,
    stripe:
      secretKey && webhookSecret
        ? { secretKey, webhookSecret, baseUrl: stripeUrl ?? null, achHoldMs: v.ACH_HOLD_DAYS * dayMs }
        : null,
  }
}

/** Prints every fault of the configuration on its own line. */
export function printFaults({ faults }: ConfigError): void {
  for (const fault of faults) console.error(`configuration: ${fault}`)
}

const requiredNode = 24

/** Returns the reason why a Node version is not supported; null = it is supported. */
export function nodeFault(version: string): string | null {
  if (Number.parseInt(version, 10) >= requiredNode) return null
  return `needs Node ${requiredNode}, and this is ${version}: use the npm scripts, or node_modules/.bin/node`
}

/** Loads the configuration or prints every fault on its own line and exits with 1. For the entry points only. */
export function loadConfigOrExit(): Config {
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
    const [, name, what] = providerVariable.exec(variable) ?? []
    if (!name || notProviders.has(name)) continue
    const provider = settings.get(name.toLowerCase()) ?? noSettings(name)
    settings.set(name.toLowerCase(), provider)
    if (isCloudVariable(what)) {
      provider.cloud[what] = value
    } else if (what === 'WEBHOOK_SECRET') {
      provider.webhookSecret = value
    } else if (what === 'PROXY') {
      provider.proxy = value
      if (value !== directConnection && !isProxyUrl(value))
        faults.push(`${variable}: must be a URL starting with http:// or https://, or ${directConnection}`)
    } else if (what === 'API_KEY') {
      provider.apiKeys = splitList(value)
      // A key with a line break or a non-ASCII character cannot be sent in a header: report it at start, without
      // printing it.
      if (provider.apiKeys.some(key => !/^[\x21-\x7e]+$/.test(key)))
        faults.push(`${variable}: has characters that no API key has`)
    } else if (URL.canParse(value.replaceAll('{region}', 'x')) && /^https?:/.test(value)) {
      provider.baseUrl = value.replace(/\/+$/, '')
    } else {
      faults.push(`${variable}: must be a URL starting with http:// or https://`)
    }
  }
  addAwsKeys(settings, env)
  return { settings, faults }
}

/** Prefixes of variables that are not of a provider. */
const notProviders: ReadonlySet<string> = new Set(['STRIPE', 'HTTP', 'HTTPS', 'ALL', 'NO', 'FTP'])

/** AWS' own name of an API key: that of the service, which is that of its provider here. */
const awsKey = /^AWS_BEARER_TOKEN_([A-Z][A-Z0-9_]*)$/

/**
 * Adds AWS' own variables of API keys and regions. Only a key enables a provider: an access key may be of the storage, and a region
 * is set wherever a process runs at AWS.
 */
function addAwsKeys(settings: Map<string, ProviderSettings>, env: Record<string, string>): void {
  const { AWS_REGION: region = env.AWS_DEFAULT_REGION } = env
  for (const [variable, keys] of Object.entries(env)) {
    const name = awsKey.exec(variable)?.[1]
    if (!name) continue
    const provider = settings.get(name.toLowerCase()) ?? noSettings(name)
    settings.set(name.toLowerCase(), provider)
    if (provider.apiKeys.length === 0) {
      provider.apiKeys = splitList(keys)
      provider.apiKeyOrigin = variable
    }
    if (region) provider.cloud.REGIONS ??= region
  }
}

function noSettings(name: string): ProviderSettings {
  return { apiKeys: [], apiKeyOrigin: `${name}_API_KEY`, baseUrl: null, webhookSecret: null, proxy: null, cloud: {} }
}
