import { z } from 'zod'
import { loadLimitVariables } from './load-limits.ts'
import { ppmFromPercent } from './money.ts'
import { quotaVariables } from './quotas.ts'
import { parseRedisUrl, redisUrlFault } from './redis-url.ts'
import { retentionVariables } from './retention-config.ts'

const port = z.coerce.number().int().min(0).max(65_535)
const positive = (max: number) => z.coerce.number().int().min(1).max(max)
const flag = z.enum(['true', 'false', '1', '0', '']).transform(text => text === 'true' || text === '1')
const percent = z
  .string()
  .regex(/^\d{1,3}(\.\d{1,4})?$/, 'must be a percentage such as 5 or 2.5')
  .transform(ppmFromPercent)
const discount = percent.refine(ppm => ppm <= 1_000_000n, 'must be at most 100')
const url = (...protocols: string[]) => {
  const fault = `must be a URL starting with ${protocols.map(protocol => `${protocol}//`).join(' or ')}`
  return z.string().refine(text => URL.canParse(text) && protocols.includes(new URL(text).protocol), {
    // A generated password often has characters that end the host, such as the / of base64.
    error: ({ input }) =>
      protocols.some(protocol => String(input).startsWith(protocol)) && String(input).includes('@')
        ? `${fault}; / ? and # in its password must be percent-encoded (%2F, %3F, %23)`
        : fault,
  })
}
/** The address of PostgreSQL. */
export const databaseUrl = url('postgres:', 'postgresql:')
const origins = z
  .string()
  .transform(text => text.split(',').map(origin => origin.trim()))
  .refine(list => list.every(origin => URL.canParse(origin) && new URL(origin).origin === origin), {
    error: 'must be a comma-separated list of origins such as https://app.example.com',
  })
const redisUrl = z.string().refine(text => parseRedisUrl(text) !== null, { error: redisUrlFault })
const pem = z
  .string()
  .startsWith('-----BEGIN ', 'must be PEM: the text of the file, or its path in the variable with _FILE')
/** Without characters that are special in Lua strings and in patterns of SCAN. Redis hashes what is between the first braces. */
const redisKeyPrefix = z
  .string()
  .max(64, 'must have at most 64 characters')
  .regex(/^[\w:./-]*(\{[\w:./-]+\}[\w:./-]*)?$/, 'must be letters, digits and : . / _ - with at most one {hash tag}')

const minSecretCharacters = 32
/** Each of them may be tried against a signature. */
const maxSecrets = 4

/**
 * The secrets of a list. A passphrase with commas, which was one secret before lists were accepted, still is one: a space follows
 * its commas, and its parts are too short to be secrets.
 */
function splitSecrets(text: string): string[] {
  const parts = text.split(',')
  // White space around a single secret belongs to it.
  if (parts.length === 1) return [text]
  const secrets = parts.map(part => part.trim())
  const isPassphrase = parts.slice(1).every(part => /^\s/.test(part))
  return isPassphrase && secrets.some(({ length }) => length < minSecretCharacters) ? [text] : secrets
}

/** The environment variables of the service except those of its providers: formats and defaults. */
export const variables = z.object({
  PORT: port.default(3000),
  HOST: z.string().min(1).default('0.0.0.0'),
  PUBLIC_URL: url('http:', 'https:').optional(),
  SUPPORT_CONTACT: z.union([z.email(), url('https:', 'http:')], 'must be an email address or a URL').optional(),
  DATABASE_URL: databaseUrl,
  REDIS_URL: redisUrl,
  METRICS_PORT: positive(65_535).optional(),
  METRICS_HOST: z.string().min(1).default('127.0.0.1'),
  OTEL_EXPORTER_OTLP_ENDPOINT: url('http:', 'https:').optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: url('http:', 'https:').optional(),
  OTEL_EXPORTER_OTLP_HEADERS: z
    .string()
    .regex(
      /^[^=,%]+=([^,%]|%[0-9A-Fa-f]{2})*(,[^=,%]+=([^,%]|%[0-9A-Fa-f]{2})*)*$/,
      'must be a list such as name=value,name=value',
    )
    .optional(),
  OTEL_SERVICE_NAME: z.string().min(1).max(100).default('headgate'),
  OTEL_TRACES_SAMPLER: z.enum(['parentbased_traceidratio', 'traceidratio']).default('parentbased_traceidratio'),
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),
  HTTPS_PROXY: url('http:', 'https:').optional(),
  HTTP_PROXY: url('http:', 'https:').optional(),
  NO_PROXY: z.string().default(''),
  WEB_CONCURRENCY: positive(64).default(1),
  WORKER_CONCURRENCY: positive(1000).default(50),
  DATABASE_POOL: positive(100).default(10),
  DATABASE_POOLER: flag.default(false),
  KEEP_ALIVE_TIMEOUT_MS: positive(3_600_000).default(95_000),
  SHUTDOWN_DRAIN_MS: z.coerce.number().int().min(0).max(600_000).default(5_000),
  SHUTDOWN_GRACE_MS: positive(3_600_000).default(25_000),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  DATA_DIR: z.string().min(1).default('.data'),
  REDIS_TLS_VERIFY: flag.default(true),
  REDIS_TLS_CA: pem.optional(),
  REDIS_TLS_CERT: pem.optional(),
  REDIS_TLS_KEY: pem.optional(),
  REDIS_SENTINEL_USERNAME: z.string().min(1).optional(),
  REDIS_SENTINEL_PASSWORD: z.string().min(1).optional(),
  REDIS_SHARDS: positive(128).default(16),
  REDIS_KEY_PREFIX: redisKeyPrefix.default(''),
  ALLOW_PRIVATE_URLS: flag.default(false),
  MODEL_CATALOG: z.string().optional(),
  SERVICE_MARGIN_PERCENT: percent.prefault('5'),
  EMBEDDINGS_SURCHARGE_PERCENT: percent.prefault('2.5'),
  OWN_KEY_FEE_PERCENT: discount.prefault('0'),
  UPSTREAM_CONNECT_TIMEOUT_MS: positive(600_000).default(5_000),
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: positive(600_000).default(60_000),
  UPSTREAM_FIRST_TOKEN_TIMEOUT_MS: positive(600_000).default(30_000),
  UPSTREAM_IDLE_TIMEOUT_MS: positive(600_000).default(60_000),
  UPSTREAM_TOTAL_TIMEOUT_MS: positive(3_600_000).default(600_000),
  UPSTREAM_MAX_ATTEMPTS: positive(20).default(5),
  UPSTREAM_RETRY_BUDGET_MS: positive(3_600_000).default(90_000),
  UPSTREAM_MAX_PAUSE_MS: positive(600_000).default(10_000),
  UPSTREAM_READ_ON_MS: z.coerce.number().int().min(0).max(600_000).default(10_000),
  ROUTING_LEARNING: flag.default(true),
  CACHE_MARKS: flag.default(true),
  RESPONSE_CACHE_MB: positive(1_048_576).default(64),
  RESPONSE_CACHE_ORGANISATION_MB: positive(1_048_576).default(16),
  CONVERT_MEDIA: flag.default(true),
  PASS_UNKNOWN_FIELDS: flag.default(false),
  STORAGE_URL: url('file:', 's3:').optional(),
  SIGNING_SECRET: z
    .string()
    .transform(splitSecrets)
    .refine(
      secrets => secrets.every(secret => secret.length >= minSecretCharacters),
      'must be secrets of at least 32 characters, separated by commas',
    )
    .refine(secrets => new Set(secrets).size === secrets.length, 'has a secret twice')
    .refine(secrets => secrets.length <= maxSecrets, `must be at most ${maxSecrets} secrets`)
    .optional(),
  ENCRYPTION_KEY: z
    .string()
    .transform(text => text.split(',').map(key => key.trim()))
    .refine(keys => keys.every(key => key.length >= 32), 'must be keys of at least 32 characters, separated by commas')
    .optional(),
  JOB_DEADLINE_MINUTES: positive(1_440).default(120),
  BULK_CONCURRENCY: positive(10_000).default(128),
  JOB_DISCOUNT_1H_PERCENT: discount.prefault('25'),
  JOB_DISCOUNT_6H_PERCENT: discount.prefault('50'),
  BATCH_DISCOUNT_PERCENT: discount.prefault('50'),
  JOB_HOLD_BACK_1H_SECONDS: z.coerce.number().int().min(0).max(1_800).default(120),
  JOB_HOLD_BACK_6H_SECONDS: z.coerce.number().int().min(0).max(10_800).default(900),
  MAX_EXCESS_USD: z.coerce.number().min(0).max(10_000).default(1),
  REALTIME_MAX_MINUTES: positive(1_440).default(60),
  REALTIME_MAX_USD: z.coerce.number().positive().max(10_000).default(10),
  REALTIME_MAX_SESSIONS: positive(100_000).default(20),
  REALTIME_MAX_CLIENT_SECRETS: positive(1_000_000).default(1_000),
  REALTIME_ORIGINS: origins.optional(),
  RESPONSES_MAX_CONNECTIONS: z.coerce.number().int().min(0).max(100_000).default(100),
  ...quotaVariables,
  ...retentionVariables,
  SMTP_URL: url('smtp:', 'smtps:').optional(),
  EMAIL_FROM: z.string().min(3).max(200).optional(),
  SIGN_UP: z.enum(['open', 'invitation']).default('open'),
  TRUSTED_PROXIES: z.coerce.number().int().min(0).max(10).default(0),
  DEV_OUTBOX: flag.default(false),
  OIDC_ISSUER: url('https:', 'http:').optional(),
  OIDC_CLIENT_ID: z.string().min(1).optional(),
  OIDC_CLIENT_SECRET: z.string().min(1).optional(),
  OIDC_NAME: z.string().min(1).max(40).default('single sign-on'),
  STRIPE_SECRET_KEY: z.string().min(1).optional(),
  STRIPE_WEBHOOK_SECRET: z.string().min(1).optional(),
  STRIPE_BASE_URL: url('https:', 'http:').optional(),
  STATEMENT_ISSUER: z.string().min(1).max(1_000).optional(),
  STATEMENT_FONT: z.string().min(1).optional(),
  ACH_HOLD_DAYS: z.coerce.number().int().min(0).max(60).default(7),
  ...loadLimitVariables,
})

/** Faults of variables that must be set together. */
export function requireTogether(present: Record<string, string | undefined>, names: string[]): string[] {
  const missing = names.filter(name => present[name] === undefined)
  return missing.length === 0 || missing.length === names.length
    ? []
    : missing.map(name => `${name} is not set, but ${names.filter(other => !missing.includes(other)).join(', ')} is`)
}
