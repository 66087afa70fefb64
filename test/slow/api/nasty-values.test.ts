// Every field, query and path of every route, of the API and of the dashboard, with some of the values that are hard to store, in
// turn: an answer below 500, and nothing that the ledger cannot book. Routes and fields that are added are driven as well.

import { dashboardEndpoints } from '../../../api/dashboard/routes/index.ts'
import type { Endpoint } from '../../../api/endpoint.ts'
import { openApiDocument } from '../../../api/openapi/document.ts'
import { endpoints } from '../../../api/routes/index.ts'
import { provisioningKey, rawCall } from '../../support/api/edge.ts'
import { type Document, operationsOf } from '../../support/api/nasty-bodies.ts'
import { resolved } from '../../support/api/openapi.ts'
import { exampleRequest } from '../../support/api/openapi-examples.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { fill } from '../../support/dashboard/fixtures.ts'
import { eventually } from '../../support/gateway.ts'
import { keepingAccount } from '../../support/responses/world.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'
import { startWorkers } from '../../support/workers.ts'

const withinMs = 20_000
const concurrent = 4
/** Values that each field, query or path gets. */
const perPlace = 6

/** JSON texts. */
const values = [
  ...['"\\u0000"', '"a\\u0000b"', '{"a\\u0000":"b"}', '{"a":"b\\u0000"}', '["\\u0000"]', '{"__proto__":{"a":"b"}}'],
  ...['1e308', '-1e308', '-0', '9007199254740993', '2147483648', '""', 'null', '[]', '{}', '[null]'],
  ...['1e400', '{"default":12345678901234567890}', '{"input":{"id":9007199254740993}}'],
  ...['"0000-01-01T00:00:00Z"', '"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59-23:59"'],
  ...['"+275760-09-13T00:00:00Z"', `"${'x'.repeat(300)}"`, `"${'😀'.repeat(3_000)}"`, `{"${'x'.repeat(63)}😀":"a"}`],
]
/** Texts of a URL. */
const texts = [
  ...['', '%00', 'a%00b', '%ff', '%ed%a0%80', '-1', '1e9', '99999999999999999999', 'NaN', '__proto__', '%27', '%25'],
  ...['0000-01-01T00:00:00Z', '0001-01-01T00:00:00%2B23:59', '9999-12-31T23:59:59-23:59', '%2B275760-09-13T00:00:00Z'],
  ...['-271821-04-20T00:00:00.000Z', '2026-02-30T00:00:00Z', 'x'.repeat(500), '%F0%9F%98%80'],
]
let provisioning: string

const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true' })
const account = use(test, () => keepingAccount({ gateway }))
test.before(async () => {
  provisioning = await provisioningKey(gateway, account.organisationId)
})
const owner = use(test, () => signUp(gateway))
const filled = use(test, () => fill(gateway, owner.organisationId))
test.before(async () => {
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
})

const nameOf = ({ method, path }: Endpoint) => `${method.toUpperCase()} ${path}`

function headersOf({ access }: Endpoint): Record<string, string> {
  if (access === 'provisioning') return { authorization: `Bearer ${provisioning}` }
  if (typeof access === 'object' && 'scope' in access) return { authorization: `Bearer ${account.test}` }
  const cookie = owner.visitor.cookies.map(([name, value]) => `${name}=${value}`).join('; ')
  return { cookie, origin: gateway.url }
}

/** The path of a route with ids that there are, or with `value` in their place. */
function pathOf({ path }: Endpoint, value?: string): string {
  const known = filled.ids.find(([part]) => path.includes(part))?.[1]
  return path
    .replace('{organisation}', owner.organisationId)
    .replace(/\{(\w+)\}/g, (_, name: string) => value ?? known?.[name] ?? 'none')
}

/** The names of the fields that a body may have. */
function fieldsOf(endpoint: Endpoint, document: Document): Set<string> {
  const operation = operationsOf(document).find(({ method, path }) => nameOf(endpoint) === `${method} ${path}`)
  const names = new Set<string>()
  const add = (part: unknown): void => {
    const schema = resolved(document, part as { $ref?: string }) as Record<string, object[] | object | undefined>
    for (const name of Object.keys(schema.properties ?? {})) names.add(name)
    for (const branches of [schema.anyOf, schema.oneOf, schema.allOf])
      for (const one of (branches ?? []) as object[]) add(one)
  }
  if (operation?.json) add(operation.json)
  return names
}

let turn = 0

/** The next values in turn, so that each meets fields of most routes. */
function someOf(all: readonly string[]): string[] {
  return Array.from({ length: perPlace }, () => all[turn++ % all.length]!)
}

type Shot = { what: string; path: string; body?: string }

/** Calls of a route with nasty values: bodies field by field, then queries, then the ids of its path. */
async function* shotsAt(endpoint: Endpoint, document: Document): AsyncGenerator<Shot> {
  const name = nameOf(endpoint)
  if (endpoint.body && !endpoint.form?.only) {
    const example = endpoint.example ?? filled.bodies[name] ?? {}
    const base = JSON.parse(String((await exampleRequest('application/json', example)).body)) as Record<string, unknown>
    for (const field of fieldsOf(endpoint, document)) {
      const { [field]: _, ...rest } = base
      const others = JSON.stringify(rest).slice(1)
      for (const value of someOf(values)) {
        const body = `{${JSON.stringify(field)}:${value}${others === '}' ? '' : ','}${others}`
        yield { what: `${name}: ${field} = ${value.slice(0, 40)}`, path: pathOf(endpoint), body }
      }
    }
  }
  for (const field of Object.keys(endpoint.query?.shape ?? {}))
    for (const text of someOf(texts))
      yield { what: `${name}?${field}=${text.slice(0, 40)}`, path: `${pathOf(endpoint)}?${field}=${text}` }
  if (/\{(?!organisation)/.test(endpoint.path))
    for (const text of someOf(texts.slice(1)))
      yield { what: `${name} at ${text.slice(0, 40)}`, path: pathOf(endpoint, text) }
}

/** They wait two seconds for a request that is not logged yet; `bad-input` and `feedback` drive them. */
const slow = new Set(['POST /v1/feedback', 'GET /v1/generation'])

async function drive(t: ExecutionContext, all: readonly Endpoint[]): Promise<void> {
  const document = (await openApiDocument(all)) as unknown as Document
  const troubles: string[] = []
  let fired = 0
  const fire = async (endpoint: Endpoint, { what, path, body }: Shot) => {
    fired++
    const headers = { ...headersOf(endpoint), ...(body !== undefined && { 'content-type': 'application/json' }) }
    const call = {
      method: endpoint.method.toUpperCase(),
      path,
      headers,
      ...(body !== undefined && { body: Buffer.from(body) }),
    }
    const startedMs = Date.now()
    const { status, body: text } = await rawCall(gateway.url, call)
    if (status >= 500 || Date.now() - startedMs > withinMs) troubles.push(`${what}: ${status} ${text.slice(0, 200)}`)
  }
  for (const endpoint of all.filter(endpoint => !slow.has(nameOf(endpoint)))) {
    let running: Promise<void>[] = []
    for await (const shot of shotsAt(endpoint, document)) {
      running.push(fire(endpoint, shot))
      if (running.length < concurrent) continue
      await Promise.all(running)
      running = []
    }
    await Promise.all(running)
  }
  t.deepEqual(troubles, [])
  t.true(fired > 500)
}

test.serial('an answer below 500 on every route of the API, and all of it is booked', async t => {
  const before = await gateway.settled()
  await drive(t, endpoints)
  t.deepEqual(await gateway.settled(), before)
})

test.serial('the work that was accepted ends, whatever is in it', async t => {
  const { db } = gateway.services
  const workers = startWorkers(gateway.services)
  t.teardown(() => workers.stop())
  const unfinished = async () =>
    (await db.batch.count({ where: { status: { in: ['validating', 'in_progress', 'finalizing'] } } })) +
    (await db.job.count({ where: { status: { in: ['queued', 'in_progress'] } } }))
  await eventually(async () => (await unfinished()) === 0, 'all jobs and batches are over', 240_000)
  t.deepEqual(
    (await gateway.settled()).filter(breach => breach.includes('usage')),
    [],
  )
})

test.serial('an answer below 500 on every route of the dashboard', t => drive(t, dashboardEndpoints))
