import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import {
  assertPublicUrl,
  type FetchRules,
  fetchPublic,
  isPublicAddress,
  openPublic,
  type UrlRefused,
} from '../../shared/io/safe-url.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'

const publicAddress = { address: '93.184.216.34', family: 4 }
const rules: FetchRules = { allowPrivate: true, maxBytes: 1000, timeoutMs: 10_000, param: 'image_url' }

/** A server on a loopback address. */
async function serve(listener: http.RequestListener, host = '127.0.0.1') {
  const server = http.createServer(listener).listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  }
  return { port, url: `http://${host}:${port}`, close }
}

const privateAddresses = [
  ...['0.0.0.0', '0.1.2.3', '10.0.0.1', '100.64.0.1', '100.127.255.255', '127.0.0.1', '127.255.255.254'],
  ...['169.254.169.254', '172.16.0.1', '172.31.255.255', '192.0.0.1', '192.0.2.1', '192.88.99.1', '192.168.1.1'],
  ...['198.18.0.1', '198.19.255.255', '198.51.100.7', '203.0.113.9', '224.0.0.1', '239.1.1.1', '240.0.0.1'],
  ...['255.255.255.255', '::', '::1', '::7f00:1', '::ffff:127.0.0.1', '::ffff:8.8.8.8', '64:ff9b::a00:1'],
  ...['64:ff9b:1::1', '100::1', '2001::1', '2001:0:53aa::1', '2001:db8::1', '2002:7f00:1::', '3fff::1', '5f00::1'],
  ...['fc00::1', 'fd00:ec2::254', 'fe80::1', 'fe80::1%lo', 'fec0::1', 'ff02::1', 'localhost', ''],
]
for (const address of privateAddresses) {
  test(`refused as not public: ${address || 'nothing'}`, t => t.false(isPublicAddress(address)))
}

for (const address of [
  '8.8.8.8',
  '93.184.216.34',
  '100.128.0.1',
  '172.32.0.1',
  '192.0.1.1',
  '2606:4700::1111',
  '2a00:1450::1',
]) {
  test(`accepted as public: ${address}`, t => t.true(isPublicAddress(address)))
}

test('accepted: a public host by address and by name, with the addresses to connect to', async t => {
  const literal = await assertPublicUrl('https://8.8.8.8:8443/a?b=c', { allowPrivate: false })
  t.deepEqual(literal.addresses, [{ address: '8.8.8.8', family: 4 }])
  const named = await assertPublicUrl('https://Example.test/', {
    allowPrivate: false,
    resolve: async () => [publicAddress],
  })
  t.deepEqual(named.addresses, [publicAddress])
  t.is(named.url.hostname, 'example.test')
})

test('url_not_allowed for a URL that is too long', async t => {
  const long = `https://8.8.8.8/${'a'.repeat(9000)}`
  await t.throwsAsync(assertPublicUrl(long, { allowPrivate: false }), { message: /not a valid URL/ })
})

test('200 piece by piece, and the connection ends with the stream', async t => {
  const part = Buffer.alloc(100_000, 'x')
  let ended = 0
  const server = await serve((request, response) => {
    response.on('close', () => ended++)
    if (request.url === '/announced') response.setHeader('content-length', 2 * part.length)
    response.write(part)
    response.end(part)
  })
  const wide = { ...rules, maxBytes: 1_000_000 }
  const opened = await openPublic(`${server.url}/announced`, wide)
  t.is(opened.bytes, 200_000)
  t.is((await buffer(opened.stream)).length, 200_000)
  const chunked = await openPublic(server.url, wide)
  t.is(chunked.bytes, null)
  chunked.stream.destroy()
  await eventually(() => ended === 2, 'both connections are closed')
  const over = await openPublic(server.url, { ...rules, maxBytes: 150_000 })
  await t.throwsAsync(buffer(over.stream), { message: /larger than 150000 bytes/ })
  await server.close()
})

test('transient for a 503 and a reset, not for a 404', async t => {
  const server = await serve((request, response) => {
    if (request.url === '/reset') response.socket?.resetAndDestroy()
    else response.writeHead(Number(request.url?.slice(1))).end()
  })
  const transient = async (path: string) =>
    (await t.throwsAsync<UrlRefused>(fetchPublic(server.url + path, rules)))?.transient
  t.deepEqual(await Promise.all(['/503', '/404', '/reset'].map(transient)), [true, false, true])
  await server.close()
})

test('url_not_allowed when only one of several addresses is private', async t => {
  const resolve = async () => [publicAddress, { address: 'fd00::1', family: 6 }]
  await t.throwsAsync(assertPublicUrl('https://mixed.test/', { allowPrivate: false, resolve }), {
    message: /public internet/,
  })
})

test('url_not_allowed when the name has no address or cannot be resolved', async t => {
  const check = (resolve: () => Promise<never[]>) =>
    assertPublicUrl('https://gone.test/', { allowPrivate: false, resolve })
  await t.throwsAsync(
    check(async () => []),
    { message: /no address/ },
  )
  await t.throwsAsync(
    check(() => Promise.reject(new Error('ENOTFOUND'))),
    { message: /cannot be found/ },
  )
})

test('200 with media type, bytes and final URL, following up to twenty redirects', async t => {
  const seen: http.IncomingHttpHeaders[] = []
  const server = await serve((request, response) => {
    seen.push(request.headers)
    const hop = Number(request.url?.slice(1))
    if (hop < 20) response.writeHead(302, { location: `/${hop + 1}` }).end('see there')
    else response.writeHead(200, { 'content-type': 'Image/PNG; charset=x' }).end(Buffer.from([1, 2, 3]))
  })
  const fetched = await fetchPublic(`${server.url}/0`, { ...rules, accept: ['image/', 'application/pdf'] })
  t.deepEqual(fetched, { contentType: 'image/png', bytes: Buffer.from([1, 2, 3]), url: `${server.url}/20` })
  t.is(seen.length, 21)
  t.like(seen[20], { accept: 'image/*, application/pdf', 'accept-encoding': 'identity' })
  await server.close()
})

test('url_not_allowed at the twenty-first redirect', async t => {
  let hits = 0
  const server = await serve((_request, response) => response.writeHead(307, { location: `/${++hits}` }).end())
  await t.throwsAsync(fetchPublic(server.url, rules), { message: /more than 20 times/ })
  t.is(hits, 21)
  await server.close()
})

/** A world where 127.0.0.1 is the internet and every other address is inside. */
const outside: FetchRules = {
  ...rules,
  allowPrivate: false,
  allowHttp: true,
  isPublic: address => address === '127.0.0.1',
}

test('url_not_allowed for a redirect to a private address, which is never contacted', async t => {
  let privateHits = 0
  const inside = await serve((_request, response) => {
    privateHits++
    response.end('secret')
  }, '127.0.0.2')
  const locations = [`http://127.0.0.2:${inside.port}/`, `http://internal.test:${inside.port}/`, 'file:///etc/passwd']
  const server = await serve((request, response) => {
    const [, detour, to] = /^\/(?:via(\d+)\/)?(\d)$/.exec(request.url ?? '')!
    const isThere = detour === undefined || detour === '1'
    const location =
      isThere && detour === undefined ? locations[Number(to)] : isThere ? `/${to}` : `/via${Number(detour) - 1}/${to}`
    response.writeHead(302, { location }).end()
  })
  const resolve = async () => [{ address: '127.0.0.2', family: 4 }]
  for (const hop of ['0', '1', 'via1/0', 'via4/1', 'via19/0']) {
    await t.throwsAsync(fetchPublic(`${server.url}/${hop}`, { ...outside, resolve }), { message: /public internet/ })
  }
  await t.throwsAsync(fetchPublic(`${server.url}/2`, outside), { message: /must be an https URL/ })
  t.is(privateHits, 0)
  t.is((await fetchPublic(`http://127.0.0.2:${inside.port}/`, rules)).bytes.toString(), 'secret')
  await Promise.all([inside.close(), server.close()])
})

test('pinned: a name that would resolve elsewhere by now is still contacted at the checked address', async t => {
  const server = await serve((request, response) => response.end(request.headers.host))
  let resolutions = 0
  const resolve = async () => {
    resolutions++
    return [{ address: resolutions === 1 ? '127.0.0.1' : '10.255.255.1', family: 4 }]
  }
  const fetched = await fetchPublic(`http://rebind.invalid:${server.port}/`, { ...rules, resolve })
  t.is(fetched.bytes.toString(), `rebind.invalid:${server.port}`)
  t.is(resolutions, 1)
  await server.close()
})

test('url_not_allowed for rebinding: a name that turns private on the next hop is not followed', async t => {
  const server = await serve((_request, response) => response.writeHead(302, { location: '/again' }).end())
  const answers = ['127.0.0.1', '127.0.0.2']
  const resolve = async () => [{ address: answers.shift()!, family: 4 }]
  const address = `http://rebind.invalid:${server.port}/`
  await t.throwsAsync(fetchPublic(address, { ...outside, resolve }), { message: /public internet/ })
  t.is(answers.length, 0)
  await server.close()
})

test('url_not_allowed at the first byte over the limit, announced or not', async t => {
  const server = await serve((request, response) => {
    if (request.url === '/announced') response.setHeader('content-length', 1001)
    response.write(Buffer.alloc(600))
    if (request.url !== '/endless') response.end(Buffer.alloc(401))
    else response.on('drain', () => response.write(Buffer.alloc(65_536))).write(Buffer.alloc(65_536))
  })
  for (const path of ['/announced', '/chunked', '/endless']) {
    await t.throwsAsync(fetchPublic(server.url + path, rules), { message: /larger than 1000 bytes/ }, path)
  }
  t.is((await fetchPublic(`${server.url}/chunked`, { ...rules, maxBytes: 1001 })).bytes.length, 1001)
  await server.close()
})

test('200 for an encoding that encodes nothing; url_not_allowed for one that compresses among others', async t => {
  let encoding: string | string[] = ''
  const server = await serve((_request, response) => response.setHeader('content-encoding', encoding).end('plain'))
  const plain = [
    '',
    ' ',
    'identity',
    'Identity',
    'aws-chunked',
    'AWS-Chunked, identity',
    'utf-8',
    'binary',
    'base64',
    'none',
    ',',
  ]
  for (encoding of [...plain, ['aws-chunked', 'utf-8']])
    t.is((await fetchPublic(server.url, rules)).bytes.toString(), 'plain', `${encoding}`)
  for (encoding of ['GZIP', 'aws-chunked, gzip', 'br,', 'x-gzip', 'zstd', 'compress', ['utf-8', 'deflate']])
    await t.throwsAsync(fetchPublic(server.url, rules), { message: /compressed/ }, `${encoding}`)
  await server.close()
})

test('url_not_allowed for a compressed body, a wrong type, a refusal and a broken connection', async t => {
  const server = await serve((request, response) => {
    if (request.url === '/gzip') response.setHeader('content-encoding', 'gzip').end(gzipSync(Buffer.alloc(1e6)))
    else if (request.url === '/html') response.setHeader('content-type', 'text/html').end('<p>')
    else if (request.url === '/404') response.writeHead(404).end()
    else response.socket?.resetAndDestroy()
  })
  const accept = ['image/']
  await t.throwsAsync(fetchPublic(`${server.url}/gzip`, rules), { message: /compressed/ })
  await t.throwsAsync(fetchPublic(`${server.url}/html`, { ...rules, accept }), { message: /of type text\/html/ })
  await t.throwsAsync(fetchPublic(`${server.url}/404`, rules), { message: /status 404/ })
  const error = await t.throwsAsync(fetchPublic(`${server.url}/reset`, rules), { message: /could not be fetched/ })
  t.like(error, { code: 'url_not_allowed', param: 'image_url' })
  await server.close()
})

test('url_not_allowed when time is up, before the answer, inside it, and while resolving', async t => {
  const server = await serve((request, response) => {
    if (request.url === '/slow-body') response.write('begun')
  })
  const hurried = { ...rules, timeoutMs: 50 }
  await t.throwsAsync(fetchPublic(`${server.url}/silent`, hurried), { message: /within 0.05 s/ })
  await t.throwsAsync(fetchPublic(`${server.url}/slow-body`, hurried), { message: /within 0.05 s/ })
  const never = { ...hurried, resolve: () => new Promise<never>(() => {}) }
  await t.throwsAsync(fetchPublic('http://never.test/', never), { message: /within 0.05 s/ })
  await server.close()
})

test('aborted: the caller’s own reason comes back', async t => {
  const leaving = new AbortController()
  const server = await serve(() => leaving.abort(new Error('client left')))
  await t.throwsAsync(fetchPublic(server.url, { ...rules, signal: leaving.signal }), { message: 'client left' })
  await server.close()
})
