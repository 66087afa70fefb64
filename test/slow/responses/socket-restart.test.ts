import { once } from 'node:events'
import type { Services } from '../../../shared/open-services.ts'
import type { Emulator } from '../../emulators/emulator.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { responsesReply } from '../../emulators/openai-responses.ts'
import { breaches, observe } from '../../support/chaos.ts'
import { openResponses } from '../../support/chat/responses-socket.ts'
import {
  createAccount,
  eventually,
  freshStores,
  type Process,
  type Stores,
  startProcess,
} from '../../support/gateway.ts'
import { refusedSession } from '../../support/realtime/sockets.ts'
import { test } from '../../support/test.ts'

/** WebSockets at /v1/responses of a service of two web processes, up to its restart. */

let stores: Stores
let upstream: Emulator
let services: Services
let web: Process
let worker: Process
test.before(async () => {
  ;[stores, upstream] = await Promise.all([freshStores(), startOpenAiEmulator()])
  const env = { OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: `${upstream.url}/v1` }
  services = await observe(stores, env)
  web = await startProcess('web', stores, { ...env, WEB_CONCURRENCY: '2', RESPONSES_MAX_CONNECTIONS: '6' })
  worker = await startProcess('worker', stores, env)
})
test.after.always(async () => {
  await web?.kill()
  await worker?.kill()
  await services?.close()
  await upstream?.close()
  await stores?.drop()
})

test.serial(
  'connections are bounded over all processes; SIGTERM closes idle ones at once, others after their turn',
  async t => {
    const { live: key } = await createAccount(services)
    const body = { model: 'gpt-4o-mini', input: 'Hello' }
    const clients = await Promise.all(Array.from({ length: 6 }, () => openResponses(web.url, { key })))
    const refusal = await refusedSession(web.url, { key, path: '/v1/responses', query: '' })
    t.is(refusal.status, 426)
    const release = Promise.withResolvers<void>()
    upstream.next(async (request, response) => {
      await release.promise
      await responsesReply()(request, response)
    })
    const [busy, ...idle] = clients
    busy!.send({ type: 'response.create', ...body })
    await eventually(() => upstream.requests.length === 1, 'the turn runs')
    for (const client of idle) t.is((await client.turn(body)).at(-1).type, 'response.completed')
    const exited = once(web.child, 'exit')
    web.child.kill('SIGTERM')
    for (const client of idle) t.is((await client.end()).code, 1012)
    t.is(busy!.closed, null)
    release.resolve()
    t.is((await busy!.until()).at(-1).type, 'response.completed')
    t.is((await busy!.end()).code, 1012)
    t.deepEqual(await exited, [0, null])
    t.deepEqual(await breaches(services), [])
    t.is(await services.db.generation.count({ where: { kind: 'responses', status: 200 } }), 6)
  },
)
