import { once } from 'node:events'
import { WebSocket } from 'ws'
import { authRoutes } from '../../../api/auth/routes.ts'
import { dashboardEndpoints } from '../../../api/dashboard/routes/index.ts'
import { openApiDocument } from '../../../api/openapi/document.ts'
import { endpoints } from '../../../api/routes/index.ts'
import { SessionEmulator } from '../../emulators/sessions.ts'
import { StripeEmulator } from '../../emulators/stripe.ts'
import { provisioningKey, rawCall } from '../../support/api/edge.ts'
import {
  type Access,
  type Document,
  fieldsOf,
  formType,
  hostileTexts,
  inflated,
  jsonLimit,
  nastyForms,
  type Operation,
  operationsOf,
} from '../../support/api/nasty-bodies.ts'
import { observe } from '../../support/chaos.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { createAccount, type Gateway } from '../../support/gateway.ts'
import { excessOf, startMeasured } from '../../support/io/measured.ts'
import { test } from '../../support/test.ts'
import { use, useStores } from '../../support/use.ts'
import { paymentEnvironment } from '../../support/wallet/payments.ts'

/**
 * No request, with or without a key, keeps the process busy for long or takes much memory (`measured.ts`). Every operation of
 * the OpenAPI document and of the dashboard is driven, as the document lists them: one that is added is driven as well.
 */
type Shot = { what: string; method: string; path: string; headers: Record<string, string>; body?: Buffer }
const document = (await openApiDocument(endpoints)) as unknown as Document
const dashboard = (await openApiDocument(dashboardEndpoints)) as unknown as Document
let organisationId: string
const door = {} as Record<Access, Record<string, string>>
let live: string

const stores = useStores(test)
const provider = use(test, () => SessionEmulator.start(() => {}))
const stripe = use(test, () => StripeEmulator.start())
const web = use(test, () =>
  startMeasured(stores, {
    OPENAI_API_KEY: 'sk-upstream',
    OPENAI_BASE_URL: `${provider.url}/v1`,
    HEYGEN_API_KEY: 'key',
    HEYGEN_WEBHOOK_SECRET: 'secret',
    ...paymentEnvironment(stripe),
    TRUSTED_PROXIES: '1',
    LOG_LEVEL: 'warn',
  }),
)
const services = use(test, () => observe(stores))
test.before(async () => {
  const gateway = { url: web.url, services } as Gateway
  const owner = await signUp(gateway)
  organisationId = owner.organisationId
  await services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
  const account = await createAccount(services)
  live = account.live
  door.public = {}
  door.key = { authorization: `Bearer ${account.test}` }
  door.provisioning = { authorization: `Bearer ${await provisioningKey(gateway, account.organisationId)}` }
  const cookie = owner.visitor.cookies.map(([name, value]) => `${name}=${value}`).join('; ')
  door.session = { cookie, origin: web.url }
  // What is loaded at the first request is not that request's doing.
  for (const operation of [...operationsOf(document), ...operationsOf(dashboard, 'session')])
    await fire({
      what: 'warm',
      method: operation.method,
      path: pathOf(operation.path),
      headers: door[operation.access],
    })
})

function pathOf(path: string, value = 'x'): string {
  return path.replace(/\{(\w+)\}/g, (_, name) => (name === 'organisation' ? organisationId : value))
}

/** Sends a request; `cut` where the server hung up before all of it was sent, as it may. */
async function fire({ method, path, headers, body }: Shot): Promise<{ status: number | 'cut'; text: string }> {
  try {
    const { status, body: text } = await rawCall(web.url, { method, path, headers, ...(body && { body }) })
    return { status, text: text.slice(0, 300) }
  } catch (error) {
    return { status: 'cut', text: String(error) }
  }
}

/** Large requests measured together: as many as their garbage usually leaves below the limit. */
const largeTogether = 4

/**
 * What is wrong with the answers to shots, or with what they did to the process: those that are too much together are
 * measured one by one.
 */
async function troublesOf(shots: Shot[]): Promise<string[]> {
  const troubles: string[] = []
  const run = async (group: Shot[]) => {
    const measured = await web.measure(async () => {
      for (const shot of group) {
        const { status, text } = await fire(shot)
        if (status !== 'cut' && status >= 500) troubles.push(`${shot.what}: ${status} ${text}`)
      }
    })
    if (excessOf(measured)) for (const shot of group) troubles.push(...(await excesses(shot)))
  }
  const isLarge = ({ body }: Shot) => (body?.length ?? 0) > 256 * 1024
  await run(shots.filter(shot => !isLarge(shot)))
  const large = shots.filter(isLarge)
  for (let at = 0; at < large.length; at += largeTogether) await run(large.slice(at, at + largeTogether))
  return troubles
}

/** What one shot does too much of, by the best of three: whatever else goes on only adds to it. */
async function excesses(shot: Shot): Promise<string[]> {
  const blocks: number[] = []
  const grows: number[] = []
  for (let round = 0; round < 3; round++) {
    const { blockMs, grownMb } = await web.measure(() => fire(shot))
    blocks.push(blockMs)
    grows.push(grownMb)
    if (!excessOf({ blockMs: Math.min(...blocks), grownMb: Math.min(...grows) })) return []
  }
  return [`${shot.what}: ${excessOf({ blockMs: Math.min(...blocks), grownMb: Math.min(...grows) })}`]
}

const json = { 'content-type': 'application/json' }
/** Of all hostile texts, those whose cost is not over once the body is read. */
const everywhere = ['NUL characters', 'as many names as there may be'].map(
  what => [what, Buffer.from(hostileTexts[what]!(jsonLimit))] as const,
)
/** Bodies whose fields are inflated already, by their schema: routes that take the same do the same with it. */
const inflatedSchemas = new Set<string>()

function shotsAt(operation: Operation, document: Document): Shot[] {
  const { method, access } = operation
  const path = pathOf(operation.path)
  const headers = { ...door[access] }
  const shots: Shot[] = []
  const add = (what: string, more: Partial<Shot>) =>
    shots.push({ what: `${method} ${operation.path}: ${what}`, method, path, headers, ...more })
  add('2,000 parameters', { path: `${path}?${'a=b&'.repeat(2_000)}limit=${'9'.repeat(4_000)}` })
  add('a long path', { path: pathOf(operation.path, 'x'.repeat(8_000)) })
  add('broken escapes in the path', { path: pathOf(operation.path, '%00%ff') })
  if (!hasBody(operation)) return shots
  for (const [what, body] of everywhere) {
    add(what, { body, headers: { ...headers, ...json } })
    if (access !== 'public') add(`${what}, without a key`, { body: body.subarray(0, 1024 * 1024), headers: json })
  }
  const schema = `${JSON.stringify(operation.json)} ${operation.path.startsWith('/v1/route')}`
  if (operation.json && !inflatedSchemas.has(schema))
    for (const [field, body] of inflated(operation, document))
      add(`a large ${field}`, { body, headers: { ...headers, ...json } })
  inflatedSchemas.add(schema)
  if (operation.isForm)
    for (const [what, body] of nastyForms(fieldsOf(operation.form!, document)))
      add(what, { body, headers: { ...headers, 'content-type': formType } })
  return shots
}

const documents: [Document, Operation[]][] = [
  [document, operationsOf(document)],
  [dashboard, operationsOf(dashboard, 'session')],
]
const hasBody = ({ method }: Operation) => method !== 'GET' && method !== 'DELETE'
for (const [described, operations] of documents)
  for (const operation of operations.filter(hasBody))
    test.serial(`served within bounds: ${operation.method} ${operation.path}`, async t => {
      t.deepEqual(await troublesOf(shotsAt(operation, described)), [])
    })

/** Operations without a body measured together: each measurement begins with a collection of all garbage. */
const operationsTogether = 16
for (const [described, operations] of documents) {
  const small = operations.filter(operation => !hasBody(operation))
  for (let at = 0; at < small.length; at += operationsTogether) {
    const some = small.slice(at, at + operationsTogether)
    const names = some.map(({ method, path }) => `${method} ${path}`)
    test.serial(`served within bounds: from ${names[0]} to ${names.at(-1)}`, async t => {
      t.deepEqual(await troublesOf(some.flatMap(operation => shotsAt(operation, described))), [])
    })
  }
}

test.serial('served: the document that these tests are made of, to the last operation', async t => {
  const served = (await (await fetch(`${web.url}/openapi.json`)).json()) as Document
  const names = (of: Document) => operationsOf(of).map(({ method, path }) => `${method} ${path}`)
  t.deepEqual(names(served), names(document))
})

const entrances: [path: string, access: Access, bytes: number][] = [
  ['/v1/chat/completions', 'key', jsonLimit],
  ['/callbacks/heygen', 'public', 256 * 1024 - 64],
  ['/webhooks/stripe', 'public', 256 * 1024 - 64],
  ['/dashboard/api/auth/sign-in/email', 'public', 64 * 1024 - 64],
]
for (const [path, access, bytes] of entrances) {
  test.serial(`served within bounds: whatever is sent to ${path}`, async t => {
    const headers = { ...door[access], ...json, origin: web.url, 'stripe-signature': 't=1,v1=x' }
    const shots = Object.entries(hostileTexts).map(([what, make]): Shot => {
      const text = make(bytes)
      return { what, method: 'POST', path, headers, body: Buffer.from(text.slice(0, Math.max(bytes, 1))) }
    })
    t.deepEqual(await troublesOf(shots), [])
  })
}

test.serial('served within bounds: every route of the accounts', async t => {
  const shots = [...authRoutes].flatMap(([route, { method }]): Shot[] => {
    const path = `/dashboard/api/auth${route}`
    const headers = { origin: web.url, ...json }
    const body = Buffer.from(hostileTexts['small objects']!(60_000))
    const long = Buffer.from(JSON.stringify({ email: `${'a'.repeat(30_000)}@${'b.'.repeat(10_000)}c`, name: 'x' }))
    if (method === 'GET') return [{ what: route, method, path: `${path}?token=${'x'.repeat(8_000)}`, headers }]
    return [body, long].map(body => ({ what: route, method, path, headers, body }))
  })
  t.deepEqual(await troublesOf(shots), [])
})

const frames = ['a colon bomb', 'open lists', 'zeros', 'escaped quotes', 'wide text', 'as many names as there may be']
const largeFrame = 15 * 1024 * 1024
for (const environment of ['test', 'live'] as const) {
  test.serial(`served within bounds: whatever a frame of a ${environment} session holds`, async t => {
    const key = environment === 'live' ? `Bearer ${live}` : door.key.authorization!
    const shots: [string, (bytes: number) => string][] = [
      ...frames.map((what): [string, (bytes: number) => string] => [what, hostileTexts[what]!]),
      [
        'tools in an event',
        bytes => `{"type":"session.update","x":[${'{"tools":0},'.repeat(20_000)}0],"y":"${'a'.repeat(bytes / 2)}"}`,
      ],
      ['sound', bytes => `{"type":"input_audio_buffer.append","audio":"${'A'.repeat(bytes)}"}`],
    ]
    const troubles: string[] = []
    for (const [what, make] of shots) {
      const frame = make(largeFrame)
      let excess: string | null = null
      for (let round = 0; round < 3; round++) {
        const socket = new WebSocket(`${web.url.replace('http', 'ws')}/v1/realtime?model=gpt-realtime-2.1`, {
          headers: { authorization: key },
          perMessageDeflate: false,
        })
        await once(socket, 'open')
        const measured = await web.measure(async () => {
          socket.send(frame)
          // What comes after it is answered after it; a session that took offence has closed.
          socket.ping()
          await Promise.race([once(socket, 'pong'), once(socket, 'close')])
        })
        socket.terminate()
        excess = excessOf(measured)
        if (!excess) break
      }
      if (excess) troubles.push(`${what}: ${excess}`)
    }
    t.deepEqual(troubles, [])
  })
}

test.serial('401 and 400 at the door of sessions, however the address is written', async t => {
  const paths = ['?model=x', `?model=${'x'.repeat(8_000)}`, `?${'a=b&'.repeat(2_000)}`, '?model=%00', '']
  for (const key of [undefined, door.key.authorization]) {
    for (const path of paths) {
      const socket = new WebSocket(`${web.url.replace('http', 'ws')}/v1/realtime${path}`, {
        headers: key === undefined ? {} : { authorization: key },
      })
      socket.on('error', () => {})
      const [, response] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode: number }]
      t.true([400, 401, 404].includes(response.statusCode), `${path.slice(0, 20)} ${response.statusCode}`)
    }
  }
})
