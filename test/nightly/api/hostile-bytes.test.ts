import { readFileSync } from 'node:fs'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { authRoutes } from '../../../api/auth/routes.ts'
import { dashboardEndpoints } from '../../../api/dashboard/routes/index.ts'
import { openApiDocument } from '../../../api/openapi/document.ts'
import { endpoints } from '../../../api/routes/index.ts'
import { provisioningKey } from '../../support/api/edge.ts'
import { type Attacker, answeredForms, attackerOf, forms, type Sent } from '../../support/api/hostile-bytes.ts'
import { type Access, type Document, operationsOf } from '../../support/api/nasty-bodies.ts'
import { observe } from '../../support/chaos.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { call, createAccount, eventually, type Gateway } from '../../support/gateway.ts'
import { excessOf, type Measured, startMeasured } from '../../support/io/measured.ts'
import { frameOf, opcodes, realtimeModel, upgradeHead } from '../../support/realtime/sockets.ts'
import { test } from '../../support/test.ts'
import { use, useStores } from '../../support/use.ts'

/**
 * However its bytes arrive, no connection ends the process, keeps it busy for long or takes much of its memory, and others
 * are served meanwhile: every form of `hostile-bytes.ts` at every operation of the OpenAPI document, of the dashboard and
 * at the routes beside them, and the forms of WebSockets at both of theirs. The process has a heap of 400 MB.
 */
const maxConnections = 400
let organisationId: string
let key: string
const door = {} as Record<Access, Record<string, string>>
let startRssMb: number

const stores = useStores(test)
const web = use(test, () => {
  const env = {
    HEYGEN_API_KEY: 'key',
    HEYGEN_WEBHOOK_SECRET: 'secret',
    STRIPE_SECRET_KEY: 'sk_test_x',
    STRIPE_WEBHOOK_SECRET: 'whsec_x',
    OPENAI_API_KEY: 'sk-upstream',
    MAX_CONNECTIONS: String(maxConnections),
    RESPONSES_MAX_CONNECTIONS: '1000',
    REALTIME_MAX_SESSIONS: '1000',
    // The other client is of the attackers' organisation, which would have less in so small a heap.
    MAX_BODY_MIB_IN_FLIGHT: '128',
    TRUSTED_PROXIES: '0',
    LOG_LEVEL: 'warn',
  }
  return startMeasured(stores, env, '--max-old-space-size=400')
})
const services = use(test, () => observe(stores))
test.before(async () => {
  const gateway = { url: web.url, services } as Gateway
  const owner = await signUp(gateway)
  organisationId = owner.organisationId
  const account = await createAccount(services)
  key = account.test
  door.public = { origin: web.url, 'stripe-signature': 't=1,v1=x' }
  door.key = { authorization: `Bearer ${key}` }
  door.provisioning = { authorization: `Bearer ${await provisioningKey(gateway, account.organisationId)}` }
  door.session = {
    cookie: owner.visitor.cookies.map(([name, value]) => `${name}=${value}`).join('; '),
    origin: web.url,
  }
  // What is loaded at the first request is not that request's doing.
  for (const sent of await allSent()) await fetch(web.url + sent.path, { method: sent.method, headers: sent.headers })
  await chat()
  await web.measure(async () => {})
  startRssMb = rssMb()
})
let phone: Promise<string>
test.before(() => {
  phone = phoneCalls()
  phone.catch(() => {}) // Its test reports a failure.
})

function rssMb(): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${web.child.pid}/status`, 'utf8'))![1]) / 1024
}

const body = (text: string) => ({ model: 'gpt-5-nano', messages: [{ role: 'user', content: text }] })

/** A request of another client, on a connection of its own. */
async function chat(): Promise<void> {
  const headers = { connection: 'close' }
  const response = await call(web.url, '/v1/chat/completions', { key, body: body('Hello'), headers })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`another client got ${response.status}: ${text}`)
}

/** A phone on a bad line: 300 bytes a second, for longer than ordinary senders may take. */
async function phoneCalls(): Promise<string> {
  const text = JSON.stringify(body('phone '.repeat(2_000)))
  const attacker = attackerOf(web.url)
  const headers = { ...door.key, 'content-type': 'application/json', 'content-length': String(text.length) }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  attacker.socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: phone\r\n${lines.join('')}\r\n`)
  for (let at = 0; at < text.length; at += 75) {
    attacker.socket.write(text.slice(at, at + 75))
    await sleep(250)
  }
  await attacker.answered
  attacker.socket.destroy()
  return attacker.text()
}

function operationsSent(document: Document, access?: Access): Sent[] {
  return operationsOf(document, access).map(({ method, path, access, isForm }) => {
    const named = path.replace(/\{(\w+)\}/g, (_, name) => (name === 'organisation' ? organisationId : 'x'))
    return { method, path: named, headers: { ...door[access] }, isForm: Boolean(isForm) }
  })
}

const besides = ['/', '/zz', '/docs/chat', '/dashboard/', '/files/x?type=a&name=b&expires=1&signature=x', '/healthz']
const reports = ['/callbacks/heygen', '/webhooks/stripe']

async function allSent(): Promise<Sent[]> {
  const headers = { ...door.public }
  return [
    ...operationsSent((await openApiDocument(endpoints)) as unknown as Document),
    ...operationsSent((await openApiDocument(dashboardEndpoints)) as unknown as Document, 'session'),
    ...besides.map(path => ({ method: 'GET', path, headers, isForm: false })),
    ...reports.map(path => ({ method: 'POST', path, headers, isForm: false })),
    ...[...authRoutes].map(([route, { method }]) => ({
      method,
      path: `/dashboard/api/auth${route}`,
      headers,
      isForm: false,
    })),
  ]
}

/** Lets attackers do their worst while another client is served; what they did to the process. */
async function attacked(begin: (attack: (isRead?: boolean) => Attacker) => Promise<void>): Promise<Measured> {
  const attackers: Attacker[] = []
  return web
    .measure(async () => {
      const others = chat()
      await begin(isRead => {
        const attacker = attackerOf(web.url, isRead)
        attackers.push(attacker)
        return attacker
      })
      await others
      await chat()
    })
    .finally(() => {
      for (const { socket } of attackers) socket.destroy()
    })
}

/** What the attacks do too much of, by the best of three rounds. */
async function excess(begin: Parameters<typeof attacked>[0]): Promise<string | null> {
  const best = { blockMs: Number.POSITIVE_INFINITY, grownMb: Number.POSITIVE_INFINITY }
  for (let round = 0; round < 3; round++) {
    const { blockMs, grownMb } = await attacked(begin)
    best.blockMs = Math.min(best.blockMs, blockMs)
    best.grownMb = Math.min(best.grownMb, grownMb)
    if (!excessOf(best)) return null
  }
  return excessOf(best)
}

/** Routes that are attacked at the same time: as many as one turn of the event loop has time for, at the most. */
const routesTogether = (form: string) => (/chunks|parts/.test(form) ? 6 : 40)

for (const form of Object.keys(forms)) {
  test.serial(`served: other callers during ${form}, at every route`, async t => {
    const sent = await allSent()
    t.true(sent.length > 100)
    for (let at = 0; at < sent.length; at += routesTogether(form)) {
      const group = sent.slice(at, at + routesTogether(form))
      const trouble = await excess(async attack => {
        const attackers = group.map(one => forms[form]!(one, attack))
        if (answeredForms.has(form)) await Promise.all(attackers.map(({ answered }) => answered))
      })
      t.is(trouble, null, group.map(({ method, path }) => `${method} ${path}`).join(', '))
    }
  })
}

/** The same frame again and again. */
const small = (opcode: number, payload: string, count: number) => {
  const frame = frameOf(opcode, payload)
  return Buffer.alloc(frame.length * count, frame)
}
const huge = frameOf(opcodes.text, Buffer.alloc(1024 * 1024)).subarray(0, 14)

/** What a client sends once its WebSocket is open. */
const sessions: Record<string, (attacker: Attacker) => Promise<void> | void> = {
  'a frame in bytes': async ({ socket }) => {
    socket.write(huge)
    for (let i = 0; i < 8_000 && !socket.destroyed; i++) {
      socket.write('x')
      await setImmediate()
    }
  },
  'fragments of a byte': ({ socket }) => {
    socket.write(frameOf(opcodes.text, 'x', { fin: false }))
    const more = frameOf(opcodes.more, 'x', { fin: false })
    socket.write(Buffer.alloc(more.length * 20_000, more))
  },
  'fragments between pings': ({ socket }) => {
    socket.write(frameOf(opcodes.text, 'x', { fin: false }))
    const pings = small(opcodes.ping, 'x'.repeat(125), 500)
    for (let i = 0; i < 50; i++) socket.write(Buffer.concat([pings, frameOf(opcodes.more, 'x', { fin: false })]))
  },
  'binary frames': ({ socket }) => void socket.write(small(opcodes.binary, 'xx', 100_000)),
  'empty frames': ({ socket }) => void socket.write(small(opcodes.text, '', 100_000)),
  'no JSON': ({ socket }) => void socket.write(small(opcodes.text, 'x', 100_000)),
  cancels: ({ socket }) => void socket.write(small(opcodes.text, '{"type":"response.cancel"}', 50_000)),
  'invalid turns': ({ socket }) => void socket.write(small(opcodes.text, '{"type":"response.create"}', 50_000)),
  pings: ({ socket }) => void socket.write(small(opcodes.ping, 'x'.repeat(125), 10_000)),
  'pings, never read': ({ socket }) => {
    socket.pause()
    socket.write(small(opcodes.ping, 'x'.repeat(125), 50_000))
  },
  'half-closed': ({ socket }) => void socket.end(),
  idle: () => {},
}

const connectionsTogether = 20

for (const path of ['/v1/responses', `/v1/realtime?model=${realtimeModel}`]) {
  for (const [what, run] of Object.entries(sessions)) {
    test.serial(`others are served: ${what}, at ${path}`, async t => {
      const trouble = await excess(async attack => {
        const attackers = Array.from({ length: connectionsTogether }, () => attack())
        for (const { socket } of attackers) socket.write(upgradeHead(path, door.key))
        await Promise.all(attackers.map(({ answered }) => answered))
        for (const attacker of attackers) t.regex(attacker.text(), /^HTTP\/1.1 101 /)
        await Promise.all(attackers.map(run))
      })
      t.is(trouble, null)
    })
  }

  test.serial(`others are served: handshakes that never end, at ${path}`, async t => {
    const trouble = await excess(async attack => {
      for (let i = 0; i < connectionsTogether; i++) attack().socket.write(upgradeHead(path, door.key).slice(0, -2))
    })
    t.is(trouble, null)
  })
}

test.serial('others are served: more idle connections than there may be', async t => {
  const trouble = await excess(async attack => {
    const idle = Array.from({ length: maxConnections * 2 }, () => attack())
    for (const { socket } of idle) socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n')
    await Promise.all(idle.map(({ answered }) => answered))
  })
  t.is(trouble, null)
})

test.serial('others are served: hundreds of bodies without a key that never end', async t => {
  const trouble = await excess(async attack => {
    const head =
      'POST /webhooks/stripe HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nstripe-signature: t=1,v1=x\r\n'
    const hanging = Array.from({ length: maxConnections - 50 }, () => attack())
    for (const { socket } of hanging) socket.write(`${head}content-length: 1000\r\n\r\n{`)
  })
  t.is(trouble, null)
})

test.serial('200 for a phone that sends 300 bytes a second, while all of this went on', async t => {
  t.regex(String(await phone), /^HTTP\/1.1 200 /)
})

/** Collections of garbage take their time where the processors are busy. */
const comesBackMs = 120_000
test.serial('ok: the memory of the process is near its start value afterwards', async t => {
  await eventually(
    async () => {
      await web.measure(async () => {})
      return rssMb() < startRssMb + 150
    },
    'it is about what it was',
    comesBackMs,
  )
  t.pass()
})
