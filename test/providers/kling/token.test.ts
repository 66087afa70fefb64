import { createHmac } from 'node:crypto'
import { kling } from '../../../shared/providers/adapters/kling/protocol.ts'
import { authHeader } from '../../../shared/providers/connections.ts'
import { startKling, tokenFault } from '../../emulators/kling.ts'
import { connectionTo, secret } from '../../support/jobs/queued-adapter.ts'
import { created, videoAdapter, videoCall } from '../../support/jobs/video-calls.ts'
import { test } from '../../support/test.ts'

const nowMs = Date.UTC(2026, 10, 20, 12, 0, 0, 900)
const nowS = Math.floor(nowMs / 1000)

test('signed: the token that Kling asks for, checked with nothing but node:crypto', t => {
  const { authorization } = authHeader('jwt', 'access:sec:ret', nowMs)
  const [scheme, token = ''] = String(authorization).split(' ')
  t.is(scheme, 'Bearer')
  const [head = '', claims = '', signature] = token.split('.')
  t.deepEqual(JSON.parse(Buffer.from(head, 'base64url').toString()), { alg: 'HS256', typ: 'JWT' })
  t.deepEqual(JSON.parse(Buffer.from(claims, 'base64url').toString()), {
    iss: 'access',
    exp: nowS + 1_800,
    nbf: nowS - 5,
  })
  t.is(signature, createHmac('sha256', 'sec:ret').update(`${head}.${claims}`).digest('base64url'))
  t.notRegex(token, /[=+/]/)
})

test('401 as Kling gives it: no token, a forged one, one of another account, one too early, one too late', t => {
  const accounts = { access: 'right' }
  const signed = (key: string) => authHeader('jwt', key, nowMs).authorization
  const fault = (authorization: string | undefined, atS = nowS) => tokenFault(authorization, accounts, atS)?.[0] ?? null
  t.is(fault(signed('access:right')), null)
  t.is(fault(undefined), 1001)
  t.is(fault('Bearer access:right'), 1001)
  t.is(fault(signed('access:wrong')), 1002)
  t.is(fault(signed('other:right')), 1002)
  t.is(fault(signed('access:right'), nowS - 6), 1003)
  t.is(fault(signed('access:right'), nowS + 1_801), 1004)
})

test('sent: each request carries a token, and the secret key never leaves', async t => {
  const { emulator, url, close } = await startKling()
  await videoAdapter(kling).start(videoCall('kling', 'kling-v3-pro'), connectionTo('kling', kling, url), null)
  const { headers, raw } = created(emulator.requests)
  t.is(tokenFault(headers.authorization, { 'secret-key-of-the-gateway': 'and-its-other-half' }), null)
  const [, half = ''] = secret.split(':')
  t.false(JSON.stringify(headers).includes(half) || raw.includes(half))
  await close()
})
