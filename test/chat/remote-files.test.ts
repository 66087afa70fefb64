import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { saying, startWorld } from '../support/chat/gateway.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

// Files behind URLs, which the gateway fetches: what they take of its memory.

const mib = 1024 * 1024
/** The least: half of it is one organisation's. */
const budgetMib = 20
const world = use(test, () => startWorld({ ALLOW_PRIVATE_URLS: 'true', MAX_BODY_MIB_IN_FLIGHT: String(budgetMib) }))
const files = use(test, startFiles)
test.beforeEach(() => {
  files.endOpen()
  world.gemini.reset()
  world.openai.reset()
})

/** A server of files: `/<bytes>/…` is as long as that; `/<bytes>/open…` is not ended before `endOpen`. */
async function startFiles() {
  const open: http.ServerResponse[] = []
  const server = http.createServer(({ url = '/' }, response) => {
    const [, bytes, name = ''] = url.split('/')
    response.writeHead(200, { 'content-type': name.endsWith('.pdf') ? 'application/pdf' : 'image/png' })
    response.write(Buffer.alloc(Number(bytes), 'a'))
    if (name.startsWith('open')) open.push(response)
    else response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    open,
    of: (bytes: number, name: string) => `http://127.0.0.1:${port}/${bytes}/${name}`,
    endOpen: () => open.splice(0).map(response => response.end()),
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

type Ask = { extension: 'png' | 'pdf'; of: (urls: string[]) => Asked }
type Asked = { path: string; body: object }

const image = (url: string) => ({ type: 'image_url', image_url: { url } })
/** Requests with files behind URLs, which the gateway fetches in each dialect. */
const asking: Record<string, Ask> = {
  'images of a chat': {
    extension: 'png',
    of: urls => ({
      path: '/v1/chat/completions',
      body: saying('gemini-2.5-flash', urls.map(image)),
    }),
  },
  'documents of a chat': {
    extension: 'pdf',
    of: urls => ({
      path: '/v1/chat/completions',
      body: saying(
        'gpt-4o-mini',
        urls.map(url => ({ type: 'file', file: { filename: 'a.pdf', file_data: url } })),
      ),
    }),
  },
  'documents of Messages, translated': {
    extension: 'pdf',
    of: urls => ({
      path: '/v1/messages',
      body: saying(
        'gpt-4o-mini',
        urls.map(url => ({ type: 'document', source: { type: 'url', url } })),
        { max_tokens: 100 },
      ),
    }),
  },
  'images of Responses': {
    extension: 'png',
    of: urls => ({
      path: '/v1/responses',
      body: {
        model: 'gemini-2.5-flash',
        store: false,
        input: [{ role: 'user', content: urls.map(image_url => ({ type: 'input_image', image_url })) }],
      },
    }),
  },
}

async function post(key: string, { path, body }: Asked) {
  const response = await world.gateway.fetch(path, { key, body })
  return { status: response.status, text: await response.text() }
}

const memory = () => world.gateway.services.budgets.remoteFiles
const sent = () => [world.gemini, world.openai].flatMap(({ requests }) => requests).length

for (const [name, { extension, of: ask }] of Object.entries(asking)) {
  test.serial(`413 without a call for ${name} that have more than 32 MiB together, also by one URL`, async t => {
    const { live } = await world.gateway.account()
    for (const names of ['abc', 'ddd']) {
      const urls = [...names].map(file => files.of(12 * mib, `${file}.${extension}`))
      const { status, text } = await post(live, ask(urls))
      t.is(status, 413, text)
      t.true(text.includes('32 MiB'), text)
    }
    t.is(sent(), 0)
  })

  test.serial(`429 for ${name} while others of the organisation take their memory, 200 after them`, async t => {
    const { live } = await world.gateway.account()
    const other = await world.gateway.account()
    const first = post(live, ask([files.of(3 * mib, `open.${extension}`)]))
    await eventually(() => memory().bytes >= 12 * mib, 'the first file is being fetched')
    const further = ask([files.of(mib, `b.${extension}`)])
    const refused = await post(live, further)
    t.is(refused.status, 429, refused.text)
    t.true(refused.text.includes('URL'), refused.text)
    t.is((await post(other.live, further)).status, 200)
    files.endOpen()
    t.is((await first).status, 200)
    t.is((await post(live, further)).status, 200)
    await eventually(() => memory().bytes === 0, 'the memory of all is released')
  })
}
