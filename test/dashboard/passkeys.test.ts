// Passkeys by hand: what a browser and an authenticator would send, and what they would not.

import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { password, type SignedUp, signUp, Visitor } from '../support/dashboard/dashboard.ts'
import { test } from '../support/test.ts'
import { useGateway, useStores } from '../support/use.ts'

const auth = '/dashboard/api/auth'

const stores = useStores(test)
const gateway = useGateway(test, { DEV_OUTBOX: 'true' }, { stores })

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()
/** The head of a string in CBOR, in its shortest form. */
const head = (major: number, length: number) =>
  Buffer.from(length < 24 ? [(major << 5) | length] : [(major << 5) | 24, length])
const bytes = (data: Buffer) => Buffer.concat([head(2, data.length), data])
const text = (data: string) => Buffer.concat([head(3, data.length), Buffer.from(data)])

const userPresent = 1
const userVerified = 4
const hasCredential = 64

/** What an authenticator states; what is not given is what an honest one would state. */
type Statement = { origin?: string; rpId?: string; flags?: number; counter?: number; challenge?: string; type?: string }

/** An authenticator with one passkey (ES256). */
class Authenticator {
  readonly id = randomBytes(16)
  readonly #privateKey: KeyObject
  readonly #coseKey: Buffer
  counter = 0

  constructor() {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    this.#privateKey = privateKey
    const { x, y } = publicKey.export({ format: 'jwk' })
    // kty EC2, alg ES256, crv P-256, x, y
    this.#coseKey = Buffer.concat([
      Buffer.from([0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21]),
      bytes(Buffer.from(x!, 'base64url')),
      Buffer.from([0x22]),
      bytes(Buffer.from(y!, 'base64url')),
    ])
  }

  create(challenge: string, statement: Statement = {}) {
    const credential = Buffer.concat([Buffer.alloc(16), Buffer.from([0, this.id.length]), this.id, this.#coseKey])
    const data = Buffer.concat([
      this.#data({ flags: userPresent | userVerified, ...statement }, hasCredential),
      credential,
    ])
    const attestationObject = Buffer.concat([
      Buffer.from([0xa3]),
      ...[text('fmt'), text('none'), text('attStmt'), Buffer.from([0xa0]), text('authData'), bytes(data)],
    ])
    return this.#credential({
      clientDataJSON: clientData('webauthn.create', challenge, statement).toString('base64url'),
      attestationObject: attestationObject.toString('base64url'),
    })
  }

  use(challenge: string, statement: Statement = {}) {
    const data = this.#data({ flags: userPresent | userVerified, counter: ++this.counter, ...statement })
    const client = clientData('webauthn.get', challenge, statement)
    const signature = sign('sha256', Buffer.concat([data, sha256(client)]), this.#privateKey)
    return this.#credential({
      clientDataJSON: client.toString('base64url'),
      authenticatorData: data.toString('base64url'),
      signature: signature.toString('base64url'),
    })
  }

  #data({ rpId = new URL(gateway.services.config.publicUrl).hostname, flags = 0, counter = 0 }: Statement, more = 0) {
    const count = Buffer.alloc(4)
    count.writeUInt32BE(counter)
    return Buffer.concat([sha256(rpId), Buffer.from([flags | more]), count])
  }

  #credential(response: Record<string, string>) {
    const id = this.id.toString('base64url')
    return { id, rawId: id, type: 'public-key', clientExtensionResults: {}, response }
  }
}

function clientData(type: string, challenge: string, { origin = gateway.url, ...statement }: Statement): Buffer {
  const data = { type: statement.type ?? type, challenge: statement.challenge ?? challenge, origin, crossOrigin: false }
  return Buffer.from(JSON.stringify(data))
}

const challengeTo = async (visitor: Visitor, ceremony: 'register' | 'authenticate') =>
  (await visitor.json<{ challenge: string }>(`${auth}/passkey/generate-${ceremony}-options`)).challenge

async function register(visitor: Visitor, authenticator: Authenticator, statement?: Statement, challenge?: string) {
  const response = authenticator.create(challenge ?? (await challengeTo(visitor, 'register')), statement)
  const body = { name: 'Key', password, response }
  return (await visitor.fetch(`${auth}/passkey/verify-registration`, { body })).status
}

async function withPasskey(): Promise<{ person: SignedUp; authenticator: Authenticator }> {
  const [person, authenticator] = [await signUp(gateway), new Authenticator()]
  const status = await register(person.visitor, authenticator)
  if (status !== 200) throw new Error(`the passkey was refused: ${status}`)
  return { person, authenticator }
}

const verify = async (visitor: Visitor, response: object) =>
  (await visitor.fetch(`${auth}/passkey/verify-authentication`, { body: { response } })).status

/** Signs in by a passkey at a browser of its own. */
async function enter(authenticator: Authenticator, statement?: Statement) {
  const visitor = new Visitor(gateway, '')
  const status = await verify(visitor, authenticator.use(await challengeTo(visitor, 'authenticate'), statement))
  return { visitor, status, person: await visitor.person() }
}

const lies: Record<string, Statement> = {
  'another origin': { origin: 'https://evil.example' },
  'another relying party': { rpId: 'evil.example' },
  'a challenge of its own': { challenge: randomBytes(32).toString('base64url') },
  'no verified user': { flags: userPresent },
  'nobody present': { flags: userVerified },
}

test.serial('400 for a passkey that another page or an authenticator without a check of its user made', async t => {
  const { visitor, userId } = await signUp(gateway)
  for (const [name, lie] of Object.entries({ ...lies, 'the use of one': { type: 'webauthn.get' } }))
    t.is(await register(visitor, new Authenticator(), lie), 400, name)
  const forSignIn = await challengeTo(visitor, 'authenticate')
  t.is(await register(visitor, new Authenticator(), {}, forSignIn), 400, 'a challenge to sign in')
  t.is(await gateway.services.db.passkey.count({ where: { userId } }), 0)
  t.is(await register(new Visitor(gateway, ''), new Authenticator(), {}, forSignIn), 401, 'nobody')
})

test.serial('400 for the passkey of another, and for the challenge of another', async t => {
  const [ada, eve] = [await signUp(gateway), await signUp(gateway)]
  const challenge = await challengeTo(ada.visitor, 'register')
  await challengeTo(eve.visitor, 'register')
  t.is(await register(eve.visitor, new Authenticator(), {}, challenge), 400)
  const { authenticator } = await withPasskey()
  t.is(await register(eve.visitor, authenticator), 400, 'the passkey of another')
})

test.serial('a passkey signs in its person, and nobody by a lie, a copy or a repetition', async t => {
  const { person, authenticator } = await withPasskey()
  t.is((await enter(authenticator)).person!.id, person.userId)
  for (const [name, lie] of Object.entries({ ...lies, 'the creation of one': { type: 'webauthn.create' } })) {
    const { status, person: entered } = await enter(authenticator, lie)
    t.is(status, 400, name)
    t.is(entered, null, name)
  }
  for (const counter of [1, authenticator.counter - 6]) t.is((await enter(authenticator, { counter })).status, 400)
  t.is((await enter(authenticator, { counter: 0 })).status, 400, 'a copy that does not count')
  const visitor = new Visitor(gateway, '')
  const response = authenticator.use(await challengeTo(visitor, 'authenticate'))
  const statuses = await Promise.all(Array.from({ length: 8 }, () => verify(visitor, response)))
  t.deepEqual(statuses.toSorted(), [200, ...Array.from({ length: 7 }, () => 400)])
  t.is(await verify(visitor, response), 400)
  const stranger = new Authenticator()
  t.is((await enter(Object.assign(stranger, { id: authenticator.id }))).status, 400, 'another key of the same name')
  t.is((await enter(new Authenticator())).status, 401, 'unknown')
})

test.serial('401 once a passkey was removed, and for the session of a person who was suspended', async t => {
  const { person, authenticator } = await withPasskey()
  const { visitor } = await enter(authenticator)
  const [passkey] = await visitor.json<{ id: string }[]>(`${auth}/passkey/list-user-passkeys`)
  const other = await signUp(gateway)
  t.is(
    (await other.visitor.fetch(`${auth}/passkey/delete-passkey`, { body: { id: passkey!.id, password } })).status,
    401,
  )
  t.is((await visitor.fetch(`${auth}/passkey/delete-passkey`, { body: { id: passkey!.id } })).status, 400)
  t.is((await visitor.fetch(`${auth}/passkey/delete-passkey`, { body: { id: passkey!.id, password } })).status, 200)
  t.is((await enter(authenticator)).status, 401)
  const second = await withPasskey()
  await gateway.services.db.user.update({ where: { id: second.person.userId }, data: { suspendedAt: new Date() } })
  const refused = await enter(second.authenticator)
  t.is(refused.status, 403)
  t.is(refused.person, null)
  t.truthy(person)
})
