import Ajv2020, { type ValidateFunction } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import type { Endpoint } from '../../api/endpoint.ts'
import { isMessagesPath } from '../../api/http-response.ts'
import { openApiDocument } from '../../api/openapi/document.ts'
import { errorsOf } from '../../api/openapi/errors.ts'
import { endpoints } from '../../api/routes/index.ts'
import { migrate } from '../../dev/migrate.ts'
import { anthropicReply } from '../emulators/anthropic.ts'
import { Emulator } from '../emulators/emulator.ts'
import { geminiReply } from '../emulators/gemini.ts'
import { reply as openAiReply } from '../emulators/openai.ts'
import { errorIn, expectedError, provisioningKey } from '../support/api/edge.ts'
import { mutate, mutation } from '../support/api/mutations.ts'
import { type NamedOperation, type OpenApi, operationsIn, resolved } from '../support/api/openapi.ts'
import { valuesOf } from '../support/api/schema-arbitraries.ts'
import { type Gateway, type Stores, startGateway } from '../support/gateway.ts'
import { privatePostgres, privateRedis } from '../support/stack.ts'

/** What random requests came to. */
export type FuzzResult = {
  seed: number
  operations: number
  requests: number
  /** How many had a body that the schema of their operation takes. */
  valid: number
  /** How many were answered with a status of each class. */
  classes: Record<string, number>
  faults: string[]
}

type FuzzOptions = { requests: number; seed: number; log?: (line: string) => void }
type Access = 'public' | 'live' | 'test' | 'provisioning'
type Shot = { path: string; access: Access; body: string | FormData | undefined; isValid: boolean }
type Target = NamedOperation & {
  endpoint: Endpoint
  errors: ReadonlySet<string>
  shots: fc.Arbitrary<Shot>
}

const document = (await openApiDocument(endpoints)) as unknown as OpenApi
const maxFaults = 50
const maxMade = 500
/** Rows that a refused request must not leave behind. */
const tables = [
  ...['api_keys', 'provider_keys', 'budgets', 'jobs', 'webhook_endpoints', 'files', 'batches', 'batch_lines'],
  ...[
    'stored_responses',
    'conversations',
    'conversation_items',
    'log_exports',
    'presets',
    'preset_versions',
    'top_ups',
  ],
]

/** Starts a gateway of its own, before emulated providers, and sends it random requests. */
export async function fuzz(options: FuzzOptions): Promise<FuzzResult> {
  const postgres = await privatePostgres()
  const redis = await privateRedis()
  try {
    await migrate(postgres.url)
    const stores: Stores = { databaseUrl: postgres.url, redisUrl: redis.url, drop: async () => {} }
    return await fuzzStores(stores, options)
  } finally {
    await Promise.all([postgres.stop(), redis.stop()])
  }
}

/** Sends random requests to a gateway over these stores. */
export async function fuzzStores(stores: Stores, options: FuzzOptions): Promise<FuzzResult> {
  const replies = [openAiReply, anthropicReply(), geminiReply]
  const emulators = await Promise.all(replies.map(reply => Emulator.start(reply)))
  const [openai, anthropic, gemini] = emulators as [Emulator, Emulator, Emulator]
  const gateway = await startGateway(stores, {
    OPENAI_API_KEY: 'sk-upstream',
    OPENAI_BASE_URL: `${openai.url}/v1`,
    ANTHROPIC_API_KEY: 'sk-upstream',
    ANTHROPIC_BASE_URL: anthropic.url,
    GEMINI_API_KEY: 'sk-upstream',
    GEMINI_BASE_URL: gemini.url,
  })
  try {
    return await new Fuzzer(gateway, options).run()
  } finally {
    await gateway.close()
    await Promise.all(emulators.map(emulator => emulator.close()))
  }
}

class Fuzzer {
  readonly #gateway: Gateway
  readonly #options: FuzzOptions
  readonly #ajv = new Ajv2020.default({ strict: false, validateFormats: false })
  readonly #keys = new Map<Access, string>()
  readonly #validators = new Map<string, ValidateFunction>()
  readonly #result: FuzzResult
  /** Names of what the requests made: later ones read, change and remove it. */
  readonly #made: string[] = []
  #rows = ''

  constructor(gateway: Gateway, options: FuzzOptions) {
    this.#gateway = gateway
    this.#options = options
    this.#ajv.addSchema(document, 'document')
    this.#result = { seed: options.seed, operations: 0, requests: 0, valid: 0, classes: {}, faults: [] }
  }

  async run(): Promise<FuzzResult> {
    const { requests, seed, log } = this.#options
    const account = await this.#gateway.account({ usd: '1000' })
    this.#keys.set('live', account.live).set('test', account.test)
    this.#keys.set('provisioning', await provisioningKey(this.#gateway, account.organisationId))
    this.#rows = await this.#countRows()
    const targets = operationsIn(document).map(operation => this.#targetOf(operation))
    this.#result.operations = targets.length
    const each = Math.ceil(requests / targets.length)
    for (const target of targets) {
      const shots = fc.sample(target.shots, { numRuns: each, seed })
      for (const shot of shots) {
        await this.#fire(target, shot)
        if (this.#result.faults.length >= maxFaults) return this.#result
      }
      log?.(`${target.name}: ${shots.length}`)
    }
    const breaches = await this.#gateway.settled()
    this.#result.faults.push(...breaches.map(breach => `the ledger: ${breach}`))
    this.#result.faults.push(...(await this.#leftReserved(account.organisationId)))
    return this.#result
  }

  /** What is reserved beyond the holds of jobs that nobody runs here. */
  async #leftReserved(organisationId: string): Promise<string[]> {
    const { wallets, db } = this.#gateway.services
    const { _sum } = await db.job.aggregate({
      where: { organisationId, status: { in: ['queued', 'in_progress'] } },
      _sum: { holdNano: true },
    })
    const { reservedNano } = await wallets.view(organisationId)
    const heldNano = _sum.holdNano ?? 0n
    return reservedNano === heldNano ? [] : [`${reservedNano} nano-dollars are reserved, ${heldNano} by jobs`]
  }

  #targetOf(named: NamedOperation): Target {
    const { path, method, operation } = named
    const endpoint = endpoints.find(one => one.path === path && one.method === method)!
    const content = operation.requestBody?.content ?? {}
    const [type] = Object.keys(content)
    const body = type === undefined ? fc.constant({ body: undefined, isValid: true }) : this.#bodies(named, type)
    const [scheme] = Object.keys(operation.security[0] ?? {})
    const accesses: Access[] =
      scheme === 'provisioning' ? ['provisioning'] : scheme ? ['test', 'test', 'live'] : ['public']
    const shots = fc
      .record({ path: pathsOf(named), access: fc.constantFrom(...accesses), body })
      .map(({ path: to, access, body: made }) => ({ path: to, access, ...made }))
    return { ...named, endpoint, errors: new Set<string>(errorsOf(endpoint)), shots }
  }

  /** Bodies as the schema has them, near them, and of any kind. */
  #bodies({ operation }: NamedOperation, type: string): fc.Arbitrary<Pick<Shot, 'body' | 'isValid'>> {
    const { schema, example, examples } = operation.requestBody!.content[type]!
    if (type === 'multipart/form-data')
      return valuesOf(schema, document).map(value => ({ body: formOf(value as object), isValid: true }))
    const validate = this.#ajv.compile(withDocument(schema))
    const written = example ?? Object.values(examples ?? {}).map(one => referred(one))[0]
    const values = valuesOf(schema, document)
    const likely = written ? values.map(value => likeExample(value, written)) : values
    const mutated = fc.tuple(likely, fc.array(mutation, { minLength: 1, maxLength: 3 })).map(([value, changes]) => {
      const body = structuredClone(value)
      if (typeof body === 'object' && body !== null) for (const change of changes) mutate(body, change)
      return body
    })
    const asJson = fc
      .oneof(
        { weight: 4, arbitrary: likely },
        { weight: 2, arbitrary: values },
        { weight: 3, arbitrary: mutated },
        { weight: 1, arbitrary: fc.jsonValue() },
      )
      .map(value => ({ body: JSON.stringify(value) ?? 'null', isValid: validate(value) }))
    const hostile = fc.string({ unit: 'binary', maxLength: 200 }).map(body => ({ body, isValid: false }))
    return fc.oneof({ weight: 15, arbitrary: asJson }, { weight: 1, arbitrary: hostile })
  }

  async #fire(target: Target, { path: drawn, access, body, isValid }: Shot): Promise<void> {
    const path = drawn.replaceAll(/made-(\d+)/g, (_, n) => encodeURIComponent(this.#made[n % this.#made.length] ?? n))
    const key = this.#keys.get(access)
    const isForm = body instanceof FormData
    const response = await fetch(this.#gateway.url + path, {
      method: target.method.toUpperCase(),
      redirect: 'manual',
      headers: {
        ...(key && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && !isForm && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body }),
    })
    const text = await response.text()
    this.#result.requests++
    if (isValid && body !== undefined) this.#result.valid++
    if (target.method === 'post' && response.ok) this.#remember(text)
    const name = `${Math.floor(response.status / 100)}xx`
    this.#result.classes[name] = (this.#result.classes[name] ?? 0) + 1
    const fault = this.#faultOf(target, response, text) ?? (await this.#leftBehind(target, response))
    if (fault) this.#result.faults.push(`${target.method.toUpperCase()} ${path} ${shown(body)}: ${fault}`)
  }

  /** Remembers the name of what an answer says was made. */
  #remember(text: string): void {
    const [, name] = /"(?:id|hash)":"([\w-]{3,100})"/.exec(text) ?? []
    if (name && this.#made.push(name) > maxMade) this.#made.shift()
  }

  /** What is wrong with an answer, if anything. */
  #faultOf({ operation, errors, name }: Target, response: Response, text: string): string | null {
    const { status, headers } = response
    const type = headers.get('content-type') ?? ''
    if (!headers.get('x-request-id')) return `${status} without a request id`
    if (status < 400) {
      const { content = {} } = operation.responses[status] ?? {}
      if (!operation.responses[status]) return `${status} is not documented`
      if (!type.startsWith('application/json') || !content['application/json']) return null
      const validate = this.#validatorOf(`${name} ${status}`, content['application/json'].schema)
      if (validate(JSON.parse(text))) return null
      return `${status} not as documented: ${this.#ajv.errorsText(validate.errors).slice(0, 300)} ${text.slice(0, 200)}`
    }
    try {
      const error = errorIn(response, text)
      const expected = expectedError(response, error.code)
      if (expected.status !== status || expected.type !== error.type)
        return `not of the table: ${status} ${text.slice(0, 300)}`
      if (!errors.has(error.code)) return `${status} ${error.code} is not documented: ${text.slice(0, 300)}`
      return error.code === 'internal_error' ? `${status} ${text.slice(0, 300)}` : null
    } catch {
      // A refusal by a provider of Messages is passed on as it came.
      if (isMessagesPath(new URL(response.url).pathname) && status === 400 && /^\{"type":"error"/.test(text))
        return null
      return `${status} without the shape of an error: ${text.slice(0, 300)}`
    }
  }

  #validatorOf(name: string, schema: object): ValidateFunction {
    const known = this.#validators.get(name) ?? this.#ajv.compile(withDocument(schema))
    this.#validators.set(name, known)
    return known
  }

  /** Which tables a refused request has changed, if any. */
  async #leftBehind({ method }: Target, { status }: Response): Promise<string | null> {
    if (method === 'get') return null
    const before = this.#rows
    this.#rows = await this.#countRows()
    return status < 400 || this.#rows === before ? null : `${status}, but rows changed: ${before} → ${this.#rows}`
  }

  async #countRows(): Promise<string> {
    const counts = tables.map(table => `(SELECT count(*) FROM ${table})`).join(" || ' ' || ")
    const [row] = await this.#gateway.services.db.$queryRawUnsafe<{ counts: string }[]>(`SELECT ${counts} AS counts`)
    return row!.counts
  }
}

/** A schema whose references lead into the document. */
function withDocument(schema: object): object {
  return JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"document#/'))
}

function referred(example: { $ref?: string; value?: unknown }): unknown {
  return resolved(document, example).value
}

/** A random value with the fields of an example for those that decide whether a request is served at all. */
function likeExample(value: unknown, example: unknown): unknown {
  if (typeof value !== 'object' || value === null || typeof example !== 'object' || example === null) return example
  return { ...value, ...example }
}

/** The paths of an operation, with values for its parameters. */
function pathsOf({ path, operation }: NamedOperation): fc.Arbitrary<string> {
  const inPath = operation.parameters.filter(one => one.in === 'path')
  const inQuery = operation.parameters.filter(one => one.in === 'query')
  const odd = fc.constantFrom('x', '0', '%00', 'ü', 'a'.repeat(300), '-1', 'null')
  const made = { weight: 3, arbitrary: fc.nat(maxMade).map(n => `made-${n}`) }
  const some = (schema: object) =>
    fc.oneof({ weight: 3, arbitrary: valuesOf(schema, document) }, { weight: 1, arbitrary: odd }, made)
  const parts = fc.tuple(...inPath.map(({ schema }) => some(schema)))
  const queries = fc.tuple(...inQuery.map(({ schema }) => fc.option(some(schema), { freq: 3 })))
  return fc.tuple(parts, queries).map(([values, given]) => {
    const filled = inPath.reduce((to, { name }, i) => to.replace(`{${name}}`, textOf(values[i]) || 'x'), path)
    const query = inQuery.flatMap(({ name }, i) => (given[i] === null ? [] : [`${name}=${textOf(given[i])}`]))
    return query.length > 0 ? `${filled}?${query.join('&')}` : filled
  })
}

function textOf(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return encodeURIComponent(text.toWellFormed()).replaceAll('%2500', '%00')
}

function formOf(value: object): FormData {
  const form = new FormData()
  for (const [name, field] of Object.entries(value))
    for (const one of [field].flat())
      if (/file|image|mask|audio|video/.test(name)) form.append(name, new Blob([String(one)]), 'fuzz.bin')
      else form.append(name, String(one))
  return form
}

function shown(body: string | FormData | undefined): string {
  if (body instanceof FormData)
    return JSON.stringify(
      [...body.entries()].map(([name, value]) => [name, typeof value === 'string' ? value : 'file']),
    ).slice(0, 300)
  return (body ?? '').slice(0, 400)
}
